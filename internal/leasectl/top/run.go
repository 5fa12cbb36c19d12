package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// ErrInterrupted is returned by [Run] when somebody pressed ctrl+c.
var ErrInterrupted = errors.New("interrupted")

// drawEvery is the shortest time between two drawings that nobody caused by a key.
const drawEvery = 500 * time.Millisecond

// Run shows the screen on a terminal until somebody leaves it or ctx ends; then it returns the cause of ctx. feeds tell
// the recorder what becomes known until their context ends. Run gives the terminal back as it was, whatever happens, and
// returns when they and all that was asked of the cluster have ended. outcome is what came of an action that ended after
// the screen. A panic is returned as a [*Crash].
func Run(ctx context.Context, m *Model, in, out *os.File, feeds ...func(context.Context, *Recorder)) (outcome string, err error) {
	profile := colorprofile.NoTTY
	if m.cfg.Colour {
		profile = colorprofile.Detect(out, os.Environ())
	}
	g := &guarded{Model: m}
	p := tea.NewProgram(g, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithColorProfile(profile))
	feeding, stop := context.WithCancel(ctx)
	var r Recorder
	var wg sync.WaitGroup
	background := func(f func()) {
		wg.Go(func() {
			defer g.caught(p.Quit) // dying here would leave the terminal as it is
			f()
		})
	}
	g.leave = func() { wg.Go(p.Quit) }
	for _, feed := range feeds {
		background(func() { feed(feeding, &r) })
	}
	background(func() { pace(feeding, &r, p.Send) })
	unlink := context.AfterFunc(ctx, p.Quit)
	_, err = p.Run()
	unlink()
	stop()
	wg.Wait()
	outcome = m.stop()
	switch {
	case g.crash != nil:
		return outcome, g.crash
	case err != nil:
		return outcome, fmt.Errorf("draw the screen: %w", err)
	case m.interrupted:
		return outcome, ErrInterrupted
	}
	return outcome, nil
}

// pace sends what became known, at most twice a second, and at least the time once a second.
func pace(ctx context.Context, r *Recorder, send func(tea.Msg)) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	var sent time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if news, fresh := r.Take(now); fresh || now.Sub(sent) >= time.Second {
				sent = now
				send(news)
			}
		}
	}
}
