package main

import (
	"testing"
	"time"
)

func TestEarly(t *testing.T) {
	for _, c := range []struct {
		took, poll time.Duration
		early      bool
	}{
		{19 * time.Second, 20 * time.Second, true},
		{20 * time.Second, 20 * time.Second, false},
		{20*time.Second - earlySlack, 20 * time.Second, false},
		{0, 0, false},
	} {
		if isEarly(c.took, c.poll) != c.early {
			t.Errorf("after %s of %s: early is not %t", c.took, c.poll, c.early)
		}
	}
}

func TestPollsStartEvenly(t *testing.T) {
	for worker, wanted := range []time.Duration{0, 250, 500, 750} {
		if got := rampDelay(worker, 4, 1000); got != wanted {
			t.Errorf("worker %d starts after %d", worker, got)
		}
	}
	if last := rampDelay(9_999, 10_000, time.Hour); last <= 0 || last >= time.Hour {
		t.Errorf("the last of many starts after %s", last)
	}
}

func TestEveryConnectionPollsEveryTopic(t *testing.T) {
	const connections, targets = 4, 6
	seen := map[[2]int]int{}
	for worker := range connections * targets {
		seen[[2]int{worker % connections, targetOf(worker, connections, targets)}]++
	}
	if len(seen) != connections*targets {
		t.Errorf("%d pairs of connection and topic", len(seen))
	}
}

func TestDefaultsOfTheMode(t *testing.T) {
	for _, c := range []struct {
		words            []string
		batch, receivers int
		poll             time.Duration
	}{
		{[]string{"-mode", "send"}, 1, 16, 5 * time.Second},
		{[]string{"-mode", "consume"}, 32, 16, 5 * time.Second},
		{[]string{"-mode", "polls", "-rate", "5"}, 1, 10_000, 10 * time.Minute},
		{[]string{"-mode", "polls", "-rate", "5", "-receivers", "7", "-poll", "1s"}, 1, 7, time.Second},
	} {
		o, err := parseFlags(append(c.words, "-topic", "t"))
		if err != nil {
			t.Fatal(err)
		}
		if o.Batch != c.batch || o.Receivers != c.receivers || o.Poll != c.poll {
			t.Errorf("%v: %d %d %s", c.words, o.Batch, o.Receivers, o.Poll)
		}
	}
	if _, err := parseFlags([]string{"-topic", "t", "-mode", "polls"}); err == nil {
		t.Error("polls without a rate are accepted")
	}
}
