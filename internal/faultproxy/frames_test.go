package faultproxy

import "testing"

// frame builds one HTTP/2 frame with a payload of n bytes.
func frame(kind, flags byte, n int) []byte {
	b := make([]byte, frameHeaderLen+n)
	b[0], b[1], b[2] = byte(n>>16), byte(n>>8), byte(n)
	b[3], b[4] = kind, flags
	return b
}

func TestScannerCountsEndedStreamsHoweverBytesAreCut(t *testing.T) {
	const settings, ping, windowUpdate, endHeaders = 0x4, 0x6, 0x8, 0x4
	var stream []byte
	var ends []int // offsets behind which one more stream has ended
	add := func(kind, flags byte, n int, end bool) {
		stream = append(stream, frame(kind, flags, n)...)
		if end {
			ends = append(ends, len(stream))
		}
	}
	add(settings, 0, 18, false)
	add(settings, 1, 0, false) // 1 means ACK here
	add(frameHeaders, endHeaders, 40, false)
	add(frameData, 0, 70000, false)
	add(ping, 1, 8, false)
	add(frameHeaders, endHeaders|flagEndStream, 12, true) // trailers
	add(windowUpdate, 0, 4, false)
	add(frameData, flagEndStream, 0, true) // an empty last frame
	add(frameHeaders, endHeaders|flagEndStream, 300, true)

	for _, preface := range []int{0, http2Preface} {
		in := append(make([]byte, preface), stream...)
		for _, chunk := range []int{1, 2, 8, 9, 10, 1000, len(in)} {
			s := frameScanner{skip: preface}
			got := 0
			for at := 0; at < len(in); at += chunk {
				to := min(at+chunk, len(in))
				got += s.scan(in[at:to])
				want := 0
				for _, end := range ends {
					if to >= preface+end {
						want++
					}
				}
				if got != want {
					t.Fatalf("chunks of %d, after %d bytes: got %d ended streams, want %d", chunk, to, got, want)
				}
			}
		}
	}
}
