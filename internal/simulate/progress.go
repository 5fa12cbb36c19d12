package simulate

import (
	"sync"
	"time"
)

// Progress is how far a run is.
type Progress struct {
	// Done of Total trials are over, and Running race now.
	Done, Total, Running int
	// Scenario is that of the latest trial to begin.
	Scenario string
	// Elapsed is the time so far, Left what is left of it when it goes on like this; 0
	// when that cannot be told.
	Elapsed, Left time.Duration
}

// tellEvery is the pause between two words about how far it is.
const tellEvery = 5 * time.Second

// progress counts trials. Safe for concurrent use.
type progress struct {
	tell  func(Progress)
	since time.Time

	mu  sync.Mutex
	now Progress
}

func newProgress(s Settings, tell func(Progress)) *progress {
	p := &progress{tell: tell, since: time.Now()}
	for _, name := range s.Scenarios {
		if sc, ok := scenarioNamed(name); ok {
			p.now.Total += s.Trials * len(s.modesOf(sc))
		}
	}
	return p
}

// start tells how far it is until stop is called, which waits for the last word.
func (p *progress) start() (stop func()) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.tell(p.read())
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		telling.Wait()
	}
}

func (p *progress) read() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now
	now.Elapsed = time.Since(p.since)
	now.Left = timeLeft(now)
	return now
}

// timeLeft is how long the rest takes when it goes on like this. A trial under way
// counts half.
func timeLeft(p Progress) time.Duration {
	if p.Done == 0 {
		return 0
	}
	done := float64(p.Done) + float64(p.Running)/2
	return time.Duration(float64(p.Elapsed) * (float64(p.Total) - done) / done)
}

func (p *progress) began(scenario string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Running++
	p.now.Scenario = scenario
}

func (p *progress) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Running--
	p.now.Done++
}
