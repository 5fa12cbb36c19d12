package faultproxy

const (
	http2Preface   = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frameHeaderLen = 9
	frameData      = 0x0
	frameHeaders   = 0x1
	flagEndStream  = 0x1
)

// frameScanner follows one direction of a plain HTTP/2 connection and counts
// the frames that end a stream. On bytes that are not HTTP/2 its counts mean
// nothing, and it does no harm.
type frameScanner struct {
	skip   int // bytes until the next frame header
	header [frameHeaderLen]byte
	n      int // bytes of header seen
	ends   bool
}

// scan returns how many streams ended within b. A frame counts when its last
// byte has passed.
func (s *frameScanner) scan(b []byte) (ended int) {
	for {
		if k := min(s.skip, len(b)); k > 0 {
			s.skip -= k
			b = b[k:]
		}
		if s.skip > 0 {
			return ended
		}
		if s.ends {
			ended++
			s.ends = false
		}
		if len(b) == 0 {
			return ended
		}
		k := copy(s.header[s.n:], b)
		s.n += k
		b = b[k:]
		if s.n < frameHeaderLen {
			return ended
		}
		s.n = 0
		h := s.header
		s.skip = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		s.ends = (h[3] == frameData || h[3] == frameHeaders) && h[4]&flagEndStream != 0
	}
}
