package connect

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

const tryEndpoint = "--endpoints http://" + DefaultEndpoint

// ParseEndpoints checks a comma-separated list and returns it with schemes. source names where it came from. Without a
// scheme it is https when TLS files are given. The list must be all TLS or all plain: the etcd client speaks to all as
// to the first.
func ParseEndpoints(list, source string, haveTLS bool) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		list = DefaultEndpoint
	}
	var endpoints []string
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, exit.Usagef(tryEndpoint, "%s has an empty entry: %q", source, WithoutUserinfo(list))
		}
		endpoint, problem := parseEndpoint(item, haveTLS)
		if problem != "" {
			return nil, exit.Usagef(tryEndpoint, "%s: %q %s", source, WithoutUserinfo(item), problem)
		}
		if len(endpoints) > 0 && isSecure(endpoint) != isSecure(endpoints[0]) {
			return nil, exit.Usagef("", "%s mixes TLS and plain text: %s and %s", source, endpoints[0], endpoint)
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, nil
}

// WithoutUserinfo is a list of endpoints without what stands before the @ of each, which may be a password.
func WithoutUserinfo(list string) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		at := strings.LastIndexByte(item, '@')
		if at < 0 || strings.HasPrefix(item, "unix") { // a path may hold one
			continue
		}
		scheme, _, found := strings.Cut(item[:at], "://")
		if items[i] = "***" + item[at:]; found {
			items[i] = scheme + "://" + items[i]
		}
	}
	return strings.Join(items, ",")
}

// parseEndpoint returns one endpoint with its scheme, or what is wrong with it.
func parseEndpoint(item string, haveTLS bool) (endpoint, problem string) {
	if strings.HasPrefix(item, "unix:") || strings.HasPrefix(item, "unixs:") {
		return item, ""
	}
	if !strings.Contains(item, "://") {
		scheme := "http://"
		if haveTLS {
			scheme = "https://"
		}
		item = scheme + item
	}
	u, err := url.Parse(item)
	switch {
	case err != nil:
		return "", "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "has scheme " + strconv.Quote(u.Scheme) + ": want http or https"
	case u.User != nil:
		return "", "holds a user name: use --user"
	case u.Hostname() == "":
		return "", "has no host"
	case u.Port() == "":
		return "", "has no port: etcd's is 2379"
	case !validPort(u.Port()):
		return "", "has port " + u.Port() + ": want 1 to 65535"
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "", "has more than a host and a port"
	}
	return u.Scheme + "://" + u.Host, ""
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isSecure(endpoint string) bool {
	return strings.HasPrefix(endpoint, "https:") || strings.HasPrefix(endpoint, "unixs:")
}

// dialAddress returns the network and address of an endpoint with a scheme, and the name its certificate must carry.
func dialAddress(endpoint string) (network, address, serverName string) {
	scheme, rest, _ := strings.Cut(endpoint, ":")
	rest = strings.TrimPrefix(rest, "//")
	if scheme == "unix" || scheme == "unixs" {
		return "unix", rest, rest[strings.LastIndex(rest, "/")+1:]
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil {
		host = rest
	}
	return "tcp", rest, host
}
