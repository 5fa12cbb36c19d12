package embedetcd

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// takenOnce chooses addresses of which the last one is taken at first.
func takenOnce(t *testing.T, times *int) func(int) ([]string, error) {
	return func(n int) ([]string, error) {
		addrs, err := freeAddrs(n)
		if *times++; err != nil || *times > 1 {
			return addrs, err
		}
		ln, err := net.Listen("tcp", addrs[n-1])
		if err == nil {
			t.Cleanup(func() { ln.Close() })
		}
		return addrs, err
	}
}

func TestLostRaceForAPortIsRepeatedWithOthers(t *testing.T) {
	for _, members := range []int{1, 3} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		times := 0
		c, err := startOn(ctx, Config{Members: members, Fast: true}, takenOnce(t, &times))
		if err != nil {
			t.Fatalf("%d members: %v", members, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if times != 2 {
			t.Errorf("%d members: addresses were chosen %d times, want 2", members, times)
		}
	}
}

func TestNoFreePortIsGivenUp(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	_, err = startOn(t.Context(), Config{Fast: true}, func(int) ([]string, error) { return []string{taken, taken}, nil })
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
}

func TestRestartWaitsForItsPort(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := c.Members()[0]
	m.Kill()
	ln, err := net.Listen("tcp", m.clientAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := m.Restart(short); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("restart while its port is taken: got %v, want EADDRINUSE", err)
	}
	ln.Close()
	if err := m.Restart(ctx); err != nil {
		t.Error(err)
	}
}
