package leasectl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// inputLine is one line of stdin that is not blank.
type inputLine struct {
	number int    // from 1; blank lines count
	text   []byte // without the newline, a carriage return before it, and a byte order mark in front; at most the limit
	size   int    // what it had; more than len(text) when it was too long
}

// A chunk of lines is handed over when it is this large, or when the next line is not there yet: a slow producer's jobs
// do not wait for company, a fast one's travel together.
const (
	chunkLines = 2000
	chunkBytes = 1 << 20
)

// lineReader reads lines in chunks, ahead of whoever works on them.
type lineReader struct {
	chunks chan []inputLine // closed at the end; then err is set
	err    error
}

// readLines starts to read. The goroutine ends with the input or with ctx, but nothing can take it out of a read that
// waits for a terminal or a pipe: then it ends with the process.
func readLines(ctx context.Context, in io.Reader, limit int) *lineReader {
	r := &lineReader{chunks: make(chan []inputLine)}
	go func() {
		defer close(r.chunks)
		r.err = r.read(ctx, bufio.NewReaderSize(in, 64<<10), limit)
	}()
	return r
}

func (r *lineReader) read(ctx context.Context, in *bufio.Reader, limit int) error {
	var chunk []inputLine
	size := 0
	for number := 1; ; number++ {
		line, err := readLine(in, limit+len(byteOrderMark)+len("\r"))
		whole := err == nil || errors.Is(err, io.EOF) // else it is cut off: half a payload is none
		line.number = number
		if line.strip(limit); whole && len(bytes.TrimSpace(line.text)) > 0 {
			chunk = append(chunk, line)
			size += len(line.text)
		}
		if len(chunk) > 0 && (err != nil || len(chunk) >= chunkLines || size >= chunkBytes || in.Buffered() == 0) {
			if ctx.Err() != nil { // where both were ready, select would go on by chance
				return context.Cause(ctx)
			}
			select {
			case r.chunks <- chunk:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			chunk, size = nil, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// byteOrderMark is what some editors write in front of UTF-8.
const byteOrderMark = "\ufeff"

// strip takes off what an editor or another system put around the text, and what exceeds the limit.
func (l *inputLine) strip(limit int) {
	whole := len(l.text) == l.size
	if l.number == 1 && bytes.HasPrefix(l.text, []byte(byteOrderMark)) {
		l.text, l.size = l.text[len(byteOrderMark):], l.size-len(byteOrderMark)
	}
	if whole {
		l.text = bytes.TrimSuffix(l.text, []byte("\r"))
		l.size = len(l.text)
	}
	l.text = l.text[:min(len(l.text), limit)]
}

// readLine reads up to the newline, which is not part of the line. What exceeds the limit is counted, not kept. With an
// error there may be a last line without a newline.
func readLine(in *bufio.Reader, limit int) (inputLine, error) {
	var l inputLine
	for {
		part, err := in.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		l.size += len(part)
		l.text = append(l.text, part[:min(len(part), limit-len(l.text))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}
