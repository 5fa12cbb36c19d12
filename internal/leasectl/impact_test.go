package leasectl

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestImpact(t *testing.T) {
	changing := func() *cobra.Command {
		cmd := &cobra.Command{Use: "x"}
		(&mutation{}).addFlags(cmd.Flags())
		return cmd
	}
	for _, tt := range []struct {
		cmd  *cobra.Command
		want string
	}{
		{&cobra.Command{Use: "x"}, impactRead},
		{changing(), impactWrite},
		{writes(&cobra.Command{Use: "x"}), impactWrite},
		{destroys(changing()), impactDestroy},
		{staysHome(&cobra.Command{Use: "x"}), impactLocal},
	} {
		if got := impactOf(tt.cmd); got != tt.want {
			t.Errorf("impact %q, want %q", got, tt.want)
		}
	}
}
