package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestImpact(t *testing.T) {
	changing := func() *cobra.Command {
		cmd := &cobra.Command{Use: "x"}
		(&Mutation{}).AddFlags(cmd.Flags())
		return cmd
	}
	for _, tt := range []struct {
		cmd  *cobra.Command
		want string
	}{
		{&cobra.Command{Use: "x"}, ImpactRead},
		{changing(), ImpactWrite},
		{Writes(&cobra.Command{Use: "x"}), ImpactWrite},
		{Destroys(changing()), ImpactDestroy},
		{StaysHome(&cobra.Command{Use: "x"}), ImpactLocal},
	} {
		if got := ImpactOf(tt.cmd); got != tt.want {
			t.Errorf("impact %q, want %q", got, tt.want)
		}
	}
}
