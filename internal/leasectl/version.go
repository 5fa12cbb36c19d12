package leasectl

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// versionInfo is what leasectl knows about its own build.
type versionInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	EtcdClient string `json:"etcd_client"`
}

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of leasectl and of its etcd client",
		GroupID: cli.GroupOther,
		Example: `  leasectl version
  leasectl version -o json`,
		Args: cli.Takes(),
		RunE: func(*cobra.Command, []string) error {
			format, err := a.Format(output.Table, output.JSON)
			if err != nil {
				return err
			}
			info := buildInfo()
			if format == output.JSON {
				return output.PrintJSON(a.Out, info)
			}
			_, err = fmt.Fprintf(a.Out, "leasectl %s commit %s %s etcd-client %s\n", info.Version, info.Commit, info.Go, info.EtcdClient)
			return err
		},
	}
}

// buildInfo reads what the Go linker recorded; what it did not is "unknown".
func buildInfo() versionInfo {
	info := versionInfo{Version: "unknown", Commit: "unknown", Go: runtime.Version(), EtcdClient: "v" + version.Version}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	dirty := false
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		info.Commit += "+changes"
	}
	for _, dep := range build.Deps {
		if dep.Path == "go.etcd.io/etcd/client/v3" {
			info.EtcdClient = dep.Version
		}
	}
	return info
}
