package dump

import (
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// What an export left out ends it with one code, and says why.
func TestExportSaysWhatItLeftOut(t *testing.T) {
	for _, tc := range []struct {
		sum  exportCount
		want string
	}{
		{exportCount{written: 5}, ""},
		{exportCount{unread: 1}, "1 record left out, which cannot be read"},
		{exportCount{changed: 2}, "2 jobs left out, which changed meanwhile"},
		{exportCount{unread: 2, changed: 1}, "2 records left out, which cannot be read, and 1 job, which changed meanwhile"},
	} {
		switch err := tc.sum.verdict(); {
		case tc.want == "" && err != nil:
			t.Errorf("%+v: got %v", tc.sum, err)
		case tc.want != "" && (err == nil || err.Error() != tc.want || exit.Code(err) != exit.Partly):
			t.Errorf("%+v: got %v, want %q", tc.sum, err, tc.want)
		}
	}
}
