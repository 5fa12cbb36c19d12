package embedetcd

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

const loopback = "127.0.0.1"

// freeAddrs returns n different loopback addresses that nobody listens on.
// Somebody may take one before it is used, so callers retry on addrInUse.
func freeAddrs(n int) ([]string, error) {
	addrs := make([]string, 0, n)
	for range n {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free loopback port: %w", err)
		}
		// Kept open until all are chosen, so that they differ.
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}

// dialable turns an address to listen on into one to connect to.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort(loopback, port)
	}
	return addr
}

// atPort returns addr with the port of other when addr's own port is 0.
func atPort(addr, other string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if n, err := strconv.Atoi(port); err != nil || n != 0 {
		return addr
	}
	if _, port, err = net.SplitHostPort(other); err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// addrInUse reports whether err says that an address is taken.
func addrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// failedOn reports whether err is a network error about exactly addr.
func failedOn(err error, addr string) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Addr != nil && addr != "" && sameAddr(op.Addr, addr)
}

func sameAddr(got net.Addr, want string) bool {
	a, ok := got.(*net.TCPAddr)
	if !ok {
		return got.String() == want
	}
	b, err := net.ResolveTCPAddr("tcp", want)
	return err == nil && a.Port == b.Port && (a.IP.Equal(b.IP) || a.IP.IsUnspecified() || b.IP.IsUnspecified())
}
