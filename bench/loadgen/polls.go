package main

import (
	"context"
	"time"
)

const (
	pollReceivers = 10_000           // unless -receivers says otherwise
	pollTime      = 10 * time.Minute // unless -poll does: longer than a run, so that all stay parked
	earlySlack    = 100 * time.Millisecond
)

// parkedPolls are the figures of the polls that wait, in the report.
type parkedPolls struct {
	Wanted      int               `json:"wanted"`
	Parked      int64             `json:"parked"` // when the idle window began
	AfterIdle   int64             `json:"parked_after_idle"`
	AtEnd       int64             `json:"parked_at_end"` // of the measured window
	IdleSeconds float64           `json:"idle_seconds"`
	IdleCPU     map[string]*usage `json:"idle_cpu"` // memory as it was when the idle window ended
	IdleOther   float64           `json:"idle_other_cpu_percent"`
	Early       uint64            `json:"early_empty"` // nothing came, but before the poll time; whole run
}

// isEarly tells whether an empty answer came although there was poll time left.
func isEarly(took, poll time.Duration) bool { return took < poll-earlySlack }

// rampDelay spreads the first polls evenly over span.
func rampDelay(worker, workers int, span time.Duration) time.Duration {
	return span * time.Duration(worker) / time.Duration(workers)
}

// targetOf gives every connection polls on every topic. A worker keeps its topic: one that
// changed with every poll would leave some topics without any.
func targetOf(worker, connections, targets int) int { return worker / connections % targets }

// parked counts the polls that the connections have taken: one that waits for a free stream
// is not among them.
func (r *run) parked() int64 {
	var sum int64
	for _, c := range r.consumers {
		sum += c.open.Load()
	}
	return sum
}

// polls parks the receivers, looks at the idle server, and wakes them one by one.
func (r *run) polls(ctx context.Context) *result {
	cut, cancel := context.WithCancel(context.Background())
	defer cancel()
	pollers := r.startPollers(ctx, cut)
	sleep(ctx, r.options.Warmup)
	parked := r.idle(ctx)
	senders := r.startSenders(ctx, r.options.Messages)
	sleep(ctx, primeTime)
	result := r.window(ctx, func() bool { return false })
	parked.AtEnd = r.parked()
	senders.stop()
	senders.Wait()
	r.drain(ctx)
	pollers.stop()
	cancel()
	pollers.Wait()
	result.Missing = r.ledger.missing()
	parked.Early = r.stats.early.Load()
	result.Polls = parked
	return result
}

// idle watches the processes for a while in which nothing is sent.
func (r *run) idle(ctx context.Context) *parkedPolls {
	polls := &parkedPolls{Wanted: r.options.Receivers, Parked: r.parked()}
	before := takeSnapshot(r.procs)
	sleep(ctx, r.options.Idle)
	after := takeSnapshot(r.procs)
	polls.AfterIdle = r.parked()
	polls.IdleSeconds = after.when.Sub(before.when).Seconds()
	polls.IdleCPU, polls.IdleOther = usages(r.procs, before, after, 0)
	return polls
}

// startPollers opens the polls over the first half of the warm-up.
func (r *run) startPollers(ctx, cut context.Context) *crew {
	stop, cancel := context.WithCancel(ctx)
	crew := &crew{stop: cancel}
	workers := r.options.Receivers
	for worker := range workers {
		crew.Go(func() {
			if sleep(stop, rampDelay(worker, workers, r.options.Warmup/2)) {
				r.poller(stop, cut, worker)
			}
		})
	}
	return crew
}

// poller polls, acks and polls again.
func (r *run) poller(stop, cut context.Context, worker int) {
	c := r.consumers[worker%len(r.consumers)]
	target := r.targets[targetOf(worker, len(r.consumers), len(r.targets))]
	for turn := worker; stop.Err() == nil; turn++ {
		r.receiveOnce(stop, cut, c, target.topic, target.queues[turn%len(target.queues)])
	}
}
