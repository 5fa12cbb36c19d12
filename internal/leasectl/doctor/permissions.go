package doctor

import (
	"context"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// span is a range of keys; end "\x00" means that there is none.
type span struct{ from, end string }

// cut returns what two spans have in common; ok is false when that is nothing.
func (s span) cut(o span) (span, bool) {
	c := span{max(s.from, o.from), s.end}
	if s.end == "\x00" || o.end != "\x00" && o.end < s.end {
		c.end = o.end
	}
	return c, c.end == "\x00" || c.from < c.end
}

// holds tells whether the whole of o is in s.
func (s span) holds(o span) bool {
	c, ok := s.cut(o)
	return ok && c == o
}

// permissions are what the user may do. The zero value is a user who may do everything, as far as is known.
type permissions struct {
	known       bool
	roles       []string
	read, write []span
}

// askPermissions reads the roles of a user, which everybody may do for himself.
func askPermissions(ctx context.Context, client *clientv3.Client, user string) permissions {
	if user == "" {
		return permissions{}
	}
	u, err := client.UserGet(ctx, user)
	if err != nil {
		return permissions{} // what is denied will show
	}
	p := permissions{known: true, roles: u.Roles}
	if slices.Contains(u.Roles, "root") {
		return permissions{}
	}
	for _, role := range u.Roles {
		r, err := client.RoleGet(ctx, role)
		if err != nil {
			return permissions{}
		}
		for _, perm := range r.Perm {
			s := span{string(perm.Key), string(perm.RangeEnd)}
			if s.end == "" {
				s.end = s.from + "\x00"
			}
			if perm.PermType != clientv3.PermWrite {
				p.read = append(p.read, s)
			}
			if perm.PermType != clientv3.PermRead {
				p.write = append(p.write, s)
			}
		}
	}
	p.read, p.write = merged(p.read), merged(p.write)
	return p
}

// merged joins spans that touch, as etcd does.
func merged(spans []span) (out []span) {
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.from, b.from) })
	for _, s := range spans {
		n := len(out)
		if n == 0 || out[n-1].end != "\x00" && out[n-1].end < s.from {
			out = append(out, s)
			continue
		}
		if last := &out[n-1]; last.end != "\x00" && (s.end == "\x00" || s.end > last.end) {
			last.end = s.end
		}
	}
	return out
}

// readable returns the parts of a span that may be read, and whether they are all of it.
func (p permissions) readable(want span) (parts []span, whole bool) { return p.within(p.read, want) }

// writable tells whether all of a span may be written.
func (p permissions) writable(want span) bool {
	_, whole := p.within(p.write, want)
	return whole
}

func (p permissions) within(granted []span, want span) (parts []span, whole bool) {
	if !p.known {
		return []span{want}, true
	}
	for _, g := range granted {
		if c, ok := g.cut(want); ok {
			parts = append(parts, c)
			whole = whole || g.holds(want)
		}
	}
	return parts, whole
}
