package workqueue

import (
	"os"
)

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "unnamed"
}
