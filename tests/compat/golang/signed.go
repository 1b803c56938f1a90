package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	pollWait  = 2 * time.Second
	slow      = 2 * time.Second
	invisible = 30 * time.Second
	callWait  = 10 * time.Second
)

// command is a JSON line on stdin; what it led to is a JSON line on stdout (tests/compat/session.py):
//
//	driver signed
type command struct {
	Do, Name, Kind, Endpoint, Topic, Group, User, Secret, Body string
	DelayS                                                     int `json:"delay_s"`
}

// session is what commands have started, by name.
type session struct {
	producers map[string]rmq.Producer
	simple    map[string]rmq.SimpleConsumer
	push      map[string]rmq.PushConsumer
	held      map[string][]*rmq.MessageView
	handles   map[string]string
	lock      sync.Mutex
	seen      map[string][]string
}

func (c command) config() *rmq.Config {
	made := &rmq.Config{Endpoint: c.Endpoint, ConsumerGroup: c.Group}
	if c.User != "" {
		made.Credentials = &credentials.SessionCredentials{AccessKey: c.User, AccessSecret: c.Secret}
	}
	return made
}

func (s *session) start(c command) error {
	topics := map[string]*rmq.FilterExpression{c.Topic: rmq.SUB_ALL}
	switch c.Kind {
	case "producer", "transactional":
		options := []rmq.ProducerOption{rmq.WithTopics(c.Topic)}
		if c.Kind == "transactional" {
			commit := func(*rmq.MessageView) rmq.TransactionResolution { return rmq.COMMIT }
			options = append(options, rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: commit}))
		}
		started, err := rmq.NewProducer(c.config(), options...)
		check(err)
		s.producers[c.Name] = started
		return started.Start()
	case "simple":
		started, err := rmq.NewSimpleConsumer(c.config(), rmq.WithSimpleAwaitDuration(pollWait),
			rmq.WithSimpleSubscriptionExpressions(topics))
		check(err)
		s.simple[c.Name] = started
		return started.Start()
	}
	s.seen[c.Name] = []string{}
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		body := string(message.GetBody())
		s.lock.Lock()
		s.seen[c.Name] = append(s.seen[c.Name], body)
		s.lock.Unlock()
		if body == "slow" {
			time.Sleep(slow)
		}
		return rmq.SUCCESS
	}
	started, err := rmq.NewPushConsumer(c.config(), rmq.WithPushAwaitDuration(pollWait),
		rmq.WithPushSubscriptionExpressions(topics),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	s.push[c.Name] = started
	return started.Start()
}

func (s *session) send(ctx context.Context, c command) error {
	message := &rmq.Message{Topic: c.Topic, Body: []byte(c.Body)}
	if c.DelayS > 0 {
		message.SetDelayTimestamp(time.Now().Add(time.Duration(c.DelayS) * time.Second))
	}
	receipts, err := s.producers[c.Name].Send(ctx, message)
	if err == nil {
		s.handles[c.Name] = receipts[0].RecallHandle
	}
	return err
}

func (s *session) transact(ctx context.Context, c command) error {
	begun := s.producers[c.Name].BeginTransaction()
	message := &rmq.Message{Topic: c.Topic, Body: []byte(c.Body)}
	if _, err := s.producers[c.Name].SendWithTransaction(ctx, message, begun); err != nil {
		return err
	}
	return begun.Commit()
}

func (s *session) receive(ctx context.Context, c command) ([]string, error) {
	messages, err := s.simple[c.Name].Receive(ctx, 32, invisible)
	var status *rmq.ErrRpcStatus
	if errors.As(err, &status) && status.Code == 40401 {
		err = nil
	}
	if len(messages) > 0 {
		s.held[c.Name] = messages
	}
	bodies := []string{}
	for _, message := range messages {
		bodies = append(bodies, string(message.GetBody()))
	}
	return bodies, err
}

func (s *session) stop(c command) error {
	if started, ok := s.producers[c.Name]; ok {
		return started.GracefulStop()
	}
	if started, ok := s.simple[c.Name]; ok {
		return started.GracefulStop()
	}
	return s.push[c.Name].GracefulStop()
}

func (s *session) do(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	var err error
	switch c.Do {
	case "start":
		return nil, s.start(c)
	case "send":
		return nil, s.send(ctx, c)
	case "recall":
		_, err = s.producers[c.Name].Recall(ctx, c.Topic, s.handles[c.Name])
		return nil, err
	case "transact":
		return nil, s.transact(ctx, c)
	case "receive":
		return s.receive(ctx, c)
	case "change":
		for _, message := range s.held[c.Name] {
			err = errors.Join(err, s.simple[c.Name].ChangeInvisibleDuration(message, invisible))
		}
		return nil, err
	case "ack":
		for _, message := range s.held[c.Name] {
			err = errors.Join(err, s.simple[c.Name].Ack(ctx, message))
		}
		return nil, err
	case "taken":
		s.lock.Lock()
		defer s.lock.Unlock()
		return append([]string{}, s.seen[c.Name]...), nil
	case "stop":
		return nil, s.stop(c)
	}
	return nil, errors.New("unknown command " + c.Do)
}

func signed() {
	s := &session{
		producers: map[string]rmq.Producer{}, simple: map[string]rmq.SimpleConsumer{},
		push: map[string]rmq.PushConsumer{}, held: map[string][]*rmq.MessageView{},
		handles: map[string]string{}, seen: map[string][]string{},
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		check(json.Unmarshal(lines.Bytes(), &asked))
		value, err := s.do(asked)
		answer := map[string]any{"value": value}
		if err != nil {
			answer = map[string]any{"error": fmt.Sprintf("%T: %v", err, err)}
		}
		text, err := json.Marshal(answer)
		check(err)
		fmt.Println(string(text))
	}
}
