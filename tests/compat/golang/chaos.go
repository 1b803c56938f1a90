package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
)

// Load for `make chaos`, one event a line (tests/chaos/events.py):
//
//	driver chaos ENDPOINTS TOPIC GROUP FIFO_TOPIC FIFO_GROUP FILE GAP FIFO_GAP LINES INVISIBLE POLL MAX PAUSE
//
// Sends until its input says so (a line), and receives until that ends.
type load struct {
	out              *os.File
	writing          sync.Mutex
	draining, done   chan struct{}
	gap, fifoGap     time.Duration
	invisible, pause time.Duration
	lines, most      int
	refused          sync.Map // receipt handle → why its ack was refused
}

func seconds(text string) time.Duration {
	found, err := strconv.ParseFloat(text, 64)
	check(err)
	return time.Duration(found * float64(time.Second))
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func over(signal chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}

func (l *load) note(what string, began float64, body string, attempt int32, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	line, _ := json.Marshal(map[string]any{"what": what, "began_s": began, "ended_s": now(),
		"body": body, "attempt": attempt, "error": text})
	l.writing.Lock()
	defer l.writing.Unlock()
	l.out.Write(append(line, '\n'))
}

// watchAcks notes what the server says to an ack: this client's Ack does not look at it.
func (l *load) watchAcks(ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if asked, ok := request.(*v2.AckMessageRequest); ok && err == nil {
		status := reply.(*v2.AckMessageResponse).GetStatus()
		if status.GetCode() != v2.Code_OK {
			for _, entry := range asked.GetEntries() {
				l.refused.Store(entry.GetReceiptHandle(), status.GetMessage())
			}
		}
	}
	return err
}

func (l *load) send(sender rmq.Producer, to, body, name string) error {
	message := &rmq.Message{Topic: to, Body: []byte(body)}
	if name != "" {
		message.SetMessageGroup(name)
	}
	began := now()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := sender.Send(ctx, message)
	l.note("send", began, body, 0, err)
	return err
}

func (l *load) sendFree(sender rmq.Producer) {
	for number := 0; !over(l.draining); number++ {
		l.send(sender, topic, fmt.Sprintf("go/n0/%d", number), "")
		time.Sleep(l.gap)
	}
}

func (l *load) sendInOrder(sender rmq.Producer, to string, line int) {
	for number := 0; !over(l.draining); {
		body := fmt.Sprintf("go/f%d/%d", line, number)
		if l.send(sender, to, body, fmt.Sprintf("go-%d", line)) == nil {
			number++
		}
		time.Sleep(l.fifoGap)
	}
}

func (l *load) receive(started rmq.SimpleConsumer) {
	for !over(l.done) {
		began := now()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		messages, err := started.Receive(ctx, int32(l.most), l.invisible)
		cancel()
		var status *rmq.ErrRpcStatus
		if err != nil && !(errors.As(err, &status) && status.Code == 40401) {
			l.note("receive", began, "", 0, err)
			time.Sleep(l.pause)
			continue
		}
		for _, message := range messages {
			body := string(message.GetBody())
			l.note("receive", began, body, message.GetDeliveryAttempt(), nil)
		}
		for _, message := range messages {
			l.ack(started, message)
		}
	}
}

func (l *load) ack(started rmq.SimpleConsumer, message *rmq.MessageView) {
	began := now()
	handle := message.GetReceiptHandle()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := started.Ack(ctx, message)
	if why, refused := l.refused.LoadAndDelete(handle); refused && err == nil {
		err = errors.New(why.(string))
	}
	l.note("ack", began, string(message.GetBody()), 0, err)
}

func (l *load) consumer(of, from string, poll time.Duration) rmq.SimpleConsumer {
	settings := config(receiveFrom)
	settings.ConsumerGroup = of
	started, err := rmq.NewSimpleConsumer(settings, rmq.WithSimpleAwaitDuration(poll),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{from: rmq.SUB_ALL}))
	check(err)
	check(started.Start())
	return started
}

func chaos() any {
	arguments := os.Args[5:]
	fifoTopic, fifoGroup, file := arguments[0], arguments[1], arguments[2]
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	l := &load{out: out, draining: make(chan struct{}), done: make(chan struct{}),
		gap: seconds(arguments[3]), fifoGap: seconds(arguments[4]),
		invisible: seconds(arguments[6]), pause: seconds(arguments[9])}
	l.lines, _ = strconv.Atoi(arguments[5])
	l.most, _ = strconv.Atoi(arguments[8])
	dial := rmq.NewRpcClient
	rmq.NewRpcClient = func(target string, options ...rmq.RpcClientOption) (rmq.RpcClient, error) {
		watching := rmq.WithDialOptions(grpc.WithChainUnaryInterceptor(l.watchAcks))
		return dial(target, append(options, rmq.WithRpcClientConnOption(watching))...)
	}
	settings := config(receiveFrom)
	sender, err := rmq.NewProducer(settings, rmq.WithTopics(topic, fifoTopic))
	check(err)
	check(sender.Start())
	poll := seconds(arguments[7])
	free, inOrder := l.consumer(group, topic, poll), l.consumer(fifoGroup, fifoTopic, poll)
	var working sync.WaitGroup
	begin := func(work func()) {
		working.Add(1)
		go func() {
			defer working.Done()
			work()
		}()
	}
	begin(func() { l.sendFree(sender) })
	for line := range l.lines {
		begin(func() { l.sendInOrder(sender, fifoTopic, line) })
	}
	begin(func() { l.receive(free) })
	begin(func() { l.receive(inOrder) })
	begin(func() { l.receive(inOrder) })
	input := bufio.NewReader(os.Stdin)
	input.ReadString('\n')
	close(l.draining)
	for {
		line, err := input.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "end" {
			break
		}
	}
	close(l.done)
	working.Wait()
	return "done"
}
