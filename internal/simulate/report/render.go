package report

import (
	"errors"
	"io"
)

// Render writes p as one self-contained HTML document. It does not change p.
// Data that makes no sense (NaN, spans that end before they start, figures
// without a measure) is shown as such and is no error; the only errors are
// those of w, after which part of the document may have been written.
func Render(w io.Writer, p Page) error {
	return errors.New("render report: not written yet")
}
