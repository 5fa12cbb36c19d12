package top

import (
	"fmt"
	"runtime/debug"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// Crash is a panic of the screen, or of what it shows, after which the terminal was given back.
type Crash struct {
	Value any
	Stack string
}

func (c *Crash) Error() string { return fmt.Sprintf("this is a bug: %v", c.Value) }

// guarded is the screen, which ends in order when anything panics: what bubbletea does then leaves its reader behind.
type guarded struct {
	*Model
	leave func() // ends the program; it does not block

	mu    sync.Mutex
	crash *Crash
}

// caught notes a panic, if there is one. It is to be deferred.
func (g *guarded) caught(then func()) {
	v := recover()
	if v == nil {
		return
	}
	g.mu.Lock()
	if g.crash == nil {
		g.crash = &Crash{v, string(debug.Stack())}
	}
	g.mu.Unlock()
	then()
}

// Update implements [tea.Model].
func (g *guarded) Update(msg tea.Msg) (m tea.Model, cmd tea.Cmd) {
	m = g
	defer g.caught(func() { cmd = tea.Quit })
	_, cmd = g.Model.Update(msg)
	return g, g.command(cmd)
}

// View implements [tea.Model].
func (g *guarded) View() (v tea.View) {
	v.AltScreen = true
	defer g.caught(g.leave)
	return g.Model.View()
}

// command guards what runs beside the screen.
func (g *guarded) command(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		defer g.caught(func() { msg = tea.QuitMsg{} })
		return cmd()
	}
}
