// Scenarios on the official Go client.
//
//	driver SCENARIO SEND_TO RECEIVE_FROM TOPIC GROUP
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var sendTo, receiveFrom, topic, group string

type fields struct {
	ID         string            `json:"id"`
	Body       string            `json:"body"`
	Attempt    int32             `json:"attempt"`
	Tag        *string           `json:"tag"`
	Keys       []string          `json:"keys"`
	Properties map[string]string `json:"properties"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config(endpoint string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      endpoint,
		ConsumerGroup: group,
		Credentials:   &credentials.SessionCredentials{},
	}
}

func producer() rmq.Producer {
	started, err := rmq.NewProducer(config(sendTo), rmq.WithTopics(topic))
	check(err)
	check(started.Start())
	return started
}

func consumer(expression string) rmq.SimpleConsumer {
	return consumerOf(rmq.NewFilterExpression(expression), 2*time.Second)
}

func consumerOf(expression *rmq.FilterExpression, wait time.Duration) rmq.SimpleConsumer {
	started, err := rmq.NewSimpleConsumer(config(receiveFrom),
		rmq.WithSimpleAwaitDuration(wait),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{
			topic: expression,
		}))
	check(err)
	check(started.Start())
	return started
}

func send(sender rmq.Producer, message *rmq.Message) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	receipts, err := sender.Send(ctx, message)
	check(err)
	return receipts[0].MessageID
}

// receive goes on until count messages came or the time is over.
func receive(started rmq.SimpleConsumer, count int, seconds int, invisible int) []*rmq.MessageView {
	var found []*rmq.MessageView
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for len(found) < count && time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		messages, err := started.Receive(ctx, 32, time.Duration(invisible)*time.Second)
		cancel()
		var status *rmq.ErrRpcStatus
		if err != nil && !(errors.As(err, &status) && status.Code == 40401) {
			check(err)
		}
		found = append(found, messages...)
	}
	return found
}

func view(message *rmq.MessageView) fields {
	keys := append([]string{}, message.GetKeys()...)
	sort.Strings(keys)
	return fields{
		ID:         message.GetMessageId(),
		Body:       string(message.GetBody()),
		Attempt:    message.GetDeliveryAttempt(),
		Tag:        message.GetTag(),
		Keys:       keys,
		Properties: message.GetProperties(),
	}
}

func views(messages []*rmq.MessageView) []fields {
	found := []fields{}
	for _, message := range messages {
		found = append(found, view(message))
	}
	return found
}

func ack(started rmq.SimpleConsumer, messages []*rmq.MessageView) {
	for _, message := range messages {
		check(started.Ack(context.Background(), message))
	}
}

func roundTrip() any {
	sender, receiver := producer(), consumer("*")
	sent := []string{}
	for i := 0; i < 10; i++ {
		message := &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("body-%d 中文 🏷", i))}
		message.SetTag("blue")
		message.SetKeys("key-1", "key-2")
		message.AddProperty("colour", "blau, naïve")
		sent = append(sent, send(sender, message))
	}
	messages := receive(receiver, 10, 15, 20)
	ack(receiver, messages)
	again := receive(receiver, 1, 3, 20)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"sent": sent, "messages": views(messages), "again": views(again)}
}

func away() any {
	check(consumer("*").GracefulStop())
	sender := producer()
	sent := []string{}
	for i := 0; i < 8; i++ {
		sent = append(sent, send(sender, &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("body-%d", i))}))
	}
	receiver := consumer("*")
	messages := receive(receiver, len(sent), 15, 20)
	ack(receiver, messages)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"sent": sent, "messages": views(messages)}
}

func wakes() any {
	sender, receiver := producer(), consumerOf(rmq.SUB_ALL, 20*time.Second)
	waited := []float64{}
	for i := 0; i < 6; i++ {
		came := make(chan []*rmq.MessageView)
		go func() { came <- receive(receiver, 1, 60, 20) }()
		time.Sleep(time.Second) // until it waits
		send(sender, &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("body-%d", i))})
		sent := time.Now()
		messages := <-came
		waited = append(waited, time.Since(sent).Seconds())
		ack(receiver, messages)
	}
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"waited_s": waited}
}

func delay() any {
	sender, receiver := producer(), consumer("*")
	due := time.Now().Add(4321 * time.Millisecond)
	sent, handles := []string{}, []string{}
	for _, body := range []string{"later", "taken back"} {
		message := &rmq.Message{Topic: topic, Body: []byte(body)}
		message.SetDelayTimestamp(due)
		receipts, err := sender.Send(context.Background(), message)
		check(err)
		sent = append(sent, receipts[0].MessageID)
		handles = append(handles, receipts[0].RecallHandle)
	}
	recalled, err := sender.Recall(context.Background(), topic, handles[1])
	check(err)
	messages := receive(receiver, 1, 15, 20)
	came := time.Now()
	messages = append(messages, receive(receiver, 1, 3, 20)...) // what should not come
	_, err = sender.Recall(context.Background(), topic, handles[0])
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{
		"sent":        sent,
		"recalled":    recalled,
		"messages":    views(messages),
		"due_ms":      due.UnixMilli(),
		"told_due_ms": messages[0].GetDeliveryTimestamp().UnixMilli(),
		"came_ms":     came.UnixMilli(),
		"too_late":    fmt.Sprint(err),
	}
}

func redelivery() any {
	sender, receiver := producer(), consumer("*")
	send(sender, &rmq.Message{Topic: topic, Body: []byte("once more")})
	first := receive(receiver, 1, 15, 10)
	second := receive(receiver, 1, 15, 20)
	// This client's Ack does not look at the status; a change of the same handle does.
	err := receiver.ChangeInvisibleDuration(first[0], 10*time.Second)
	ack(receiver, second)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{
		"messages":         append(views(first), views(second)...),
		"late_ack_refused": err != nil,
	}
}

func changeInvisible() any {
	sender, receiver := producer(), consumer("*")
	send(sender, &rmq.Message{Topic: topic, Body: []byte("hold me")})
	held := receive(receiver, 1, 15, 10)
	check(receiver.ChangeInvisibleDuration(held[0], 20*time.Second))
	whileHeld := receive(receiver, 1, 12, 20)
	ack(receiver, held)
	afterAck := receive(receiver, 1, 12, 20)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"while_held": views(whileHeld), "after_ack": views(afterAck)}
}

func tagFilter() any {
	sender, receiver := producer(), consumer(" A || Aa ")
	for _, tag := range []string{"A", "Aa", "BB", "C"} {
		message := &rmq.Message{Topic: topic, Body: []byte(tag)}
		message.SetTag(tag)
		send(sender, message)
	}
	messages := receive(receiver, 2, 15, 20)
	messages = append(messages, receive(receiver, 2, 4, 20)...) // what should not come
	ack(receiver, messages)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"messages": views(messages)}
}

func sqlFilter() any {
	wanted := "(price BETWEEN 10 AND 100) AND regionId IS NOT NUll"
	sender := producer()
	receiver := consumerOf(rmq.NewFilterExpressionWithType(wanted, rmq.SQL92), 2*time.Second)
	for body, named := range map[string]map[string]string{
		"near":     {"price": "30", "regionId": "hangzhou"},
		"dear":     {"price": "300", "regionId": "hangzhou"},
		"anywhere": {"price": "30"},
		"free":     {},
	} {
		message := &rmq.Message{Topic: topic, Body: []byte(body)}
		for name, value := range named {
			message.AddProperty(name, value)
		}
		send(sender, message)
	}
	messages := receive(receiver, 1, 15, 20)
	messages = append(messages, receive(receiver, 3, 5, 20)...) // what should not come
	ack(receiver, messages)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"messages": views(messages)}
}

func push() any {
	var lock sync.Mutex
	seen := []fields{}
	done := make(chan struct{})
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		found := view(message)
		seen = append(seen, found)
		if len(seen) == 11 {
			close(done)
		}
		if found.Body == "body-3" && found.Attempt == 1 {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	started, err := rmq.NewPushConsumer(config(receiveFrom),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	check(started.Start())
	sender := producer()
	for i := 0; i < 10; i++ {
		send(sender, &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("body-%d", i))})
	}
	select {
	case <-done:
	case <-time.After(40 * time.Second):
	}
	time.Sleep(2 * time.Second) // anything that comes too often would come now
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"messages": append([]fields{}, seen...)}
}

func slowPush() any {
	var lock sync.Mutex
	seen := []fields{}
	done := make(chan struct{}, 9)
	began := time.Now()
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		lock.Lock()
		seen = append(seen, view(message))
		lock.Unlock()
		time.Sleep(7 * time.Second)
		done <- struct{}{}
		return rmq.SUCCESS
	}
	started, err := rmq.NewPushConsumer(config(receiveFrom),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	check(started.Start())
	send(producer(), &rmq.Message{Topic: topic, Body: []byte("slow")})
	select {
	case <-done:
	case <-time.After(30 * time.Second):
	}
	seconds := time.Since(began).Seconds()
	time.Sleep(4 * time.Second) // had it not been acked, it would come now
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"messages": append([]fields{}, seen...), "seconds": seconds}
}

func inOrder(body, name string) *rmq.Message {
	message := &rmq.Message{Topic: topic, Body: []byte(body)}
	message.SetMessageGroup(name)
	return message
}

func fifo() any {
	sender, receiver := producer(), consumer("*")
	began := time.Now()
	for i := 0; i < 256; i++ {
		send(sender, inOrder(fmt.Sprintf("m-%d", i), "one"))
	}
	var messages []*rmq.MessageView
	for len(messages) < 256 && time.Since(began) < time.Minute {
		found := receive(receiver, 1, 5, 20)
		ack(receiver, found)
		messages = append(messages, found...)
	}
	seconds := time.Since(began).Seconds()
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	return map[string]any{"messages": views(messages), "seconds": seconds}
}

func fifoPush() any {
	var lock sync.Mutex
	seen := []fields{}
	failed := false
	done := make(chan struct{})
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		found := view(message)
		seen = append(seen, found)
		if len(seen) == 31 {
			close(done)
		}
		if found.Body == "a-3" && !failed {
			failed = true
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	started, err := rmq.NewPushConsumer(config(receiveFrom),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	check(started.Start())
	sender := producer()
	for i := 0; i < 10; i++ {
		for _, name := range []string{"a", "b", "c"} {
			send(sender, inOrder(fmt.Sprintf("%s-%d", name, i), name))
		}
	}
	select {
	case <-done:
	case <-time.After(60 * time.Second):
	}
	time.Sleep(2 * time.Second) // anything that comes too often would come now
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"messages": append([]fields{}, seen...)}
}

func deadLetters() any { return poisoned(false) }

func fifoDeadLetters() any { return poisoned(true) }

// poisoned: four messages, of which the second always fails.
func poisoned(isOrdered bool) any {
	var lock sync.Mutex
	seen := []fields{}
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		found := view(message)
		seen = append(seen, found)
		if found.Body == "body-1" {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	started, err := rmq.NewPushConsumer(config(receiveFrom),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	check(started.Start())
	sender := producer()
	for i := 0; i < 4; i++ {
		message := &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("body-%d", i))}
		if isOrdered {
			message.SetMessageGroup("one")
		}
		send(sender, message)
	}
	end := time.Now().Add(40 * time.Second)
	for count := 0; count < 5 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		lock.Lock()
		count = len(seen)
		lock.Unlock()
	}
	time.Sleep(3 * time.Second) // anything that comes too often would come now
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"messages": append([]fields{}, seen...)}
}

func transaction() any {
	var lock sync.Mutex
	asked := []string{}
	answer := func(message *rmq.MessageView) rmq.TransactionResolution {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, string(message.GetBody()))
		if string(message.GetBody()) == "forgotten-commit" {
			return rmq.COMMIT
		}
		return rmq.ROLLBACK
	}
	sender, err := rmq.NewProducer(config(sendTo), rmq.WithTopics(topic),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: answer}))
	check(err)
	check(sender.Start())
	receiver := consumer("*")
	for _, body := range []string{"commit", "rollback", "forgotten-commit", "forgotten-rollback"} {
		begun := sender.BeginTransaction()
		message := &rmq.Message{Topic: topic, Body: []byte(body)}
		_, err := sender.SendWithTransaction(context.Background(), message, begun)
		check(err)
		switch body {
		case "commit":
			check(begun.Commit())
		case "rollback":
			check(begun.RollBack())
		}
	}
	messages := receive(receiver, 2, 30, 60)                    // held until all have come
	messages = append(messages, receive(receiver, 2, 5, 60)...) // what should not come
	ack(receiver, messages)
	check(sender.GracefulStop())
	check(receiver.GracefulStop())
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"messages": views(messages), "asked": asked}
}

func main() {
	if os.Args[1] == "signed" {
		rmq.ResetLogger()
		signed()
		return
	}
	scenario := os.Args[1]
	if scenario == "chaos" {
		sendTo, receiveFrom, topic, group = os.Args[2], os.Args[2], os.Args[3], os.Args[4]
	} else {
		sendTo, receiveFrom, topic, group = os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	}
	rmq.ResetLogger()
	scenarios := map[string]func() any{
		"round_trip": roundTrip, "redelivery": redelivery, "change_invisible": changeInvisible,
		"tag_filter": tagFilter, "sql_filter": sqlFilter, "push": push, "slow_push": slowPush,
		"fifo": fifo, "fifo_push": fifoPush, "delay": delay, "transaction": transaction,
		"away": away, "wakes": wakes, "dead_letters": deadLetters, "fifo_dead_letters": fifoDeadLetters,
		"chaos": chaos,
	}
	text, err := json.Marshal(scenarios[scenario]())
	check(err)
	fmt.Println(string(text))
}
