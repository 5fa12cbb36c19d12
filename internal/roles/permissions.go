package roles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Span is a range of keys; End "\x00" means that there is none.
type Span struct {
	// From is the first key, End the first one behind the range.
	From, End string
}

func (p Permission) span() Span {
	if end := p.end(); end != "" {
		return Span{p.Key, end}
	}
	return Span{p.Key, p.Key + "\x00"}
}

// cut returns what two spans have in common; ok is false when that is nothing.
func (s Span) cut(o Span) (Span, bool) {
	c := Span{max(s.From, o.From), s.End}
	if s.End == "\x00" || o.End != "\x00" && o.End < s.End {
		c.End = o.End
	}
	return c, c.End == "\x00" || c.From < c.End
}

// holds tells whether the whole of o is in s.
func (s Span) holds(o Span) bool {
	c, ok := s.cut(o)
	return ok && c == o
}

// Granted is what a user may do.
type Granted struct {
	// User is the name, "" where nobody is logged in.
	User string `json:"user"`
	// Roles are the user's roles.
	Roles []string `json:"roles"`
	// Everything tells that nothing is refused: the root role, or authentication is off.
	Everything bool `json:"everything"`

	read, write []Span
}

// Ask reads what a user has been granted, which every user may do for himself. user "" is nobody: with authentication
// off everybody may do everything.
func Ask(ctx context.Context, client *clientv3.Client, user string) (Granted, error) {
	g := Granted{User: user, Roles: []string{}}
	status, err := client.AuthStatus(ctx)
	switch {
	case err == nil && !status.Enabled:
		g.Everything = true
		return g, nil
	case err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) && !errors.Is(err, rpctypes.ErrUserEmpty):
		return g, fmt.Errorf("ask whether authentication is on: %w", err)
	case user == "":
		return g, nil
	}
	u, err := client.UserGet(ctx, user)
	if err != nil {
		return g, fmt.Errorf("ask for the roles of user %s: %w", user, err)
	}
	g.Roles = append(g.Roles, u.Roles...)
	if g.Everything = slices.Contains(u.Roles, "root"); g.Everything {
		return g, nil
	}
	for _, role := range u.Roles {
		r, err := client.RoleGet(ctx, role)
		if err != nil {
			return g, fmt.Errorf("ask for the permissions of role %s: %w", role, err)
		}
		for _, perm := range r.Perm {
			g.add(perm)
		}
	}
	g.read, g.write = merged(g.read), merged(g.write)
	return g, nil
}

func (g *Granted) add(perm *authpb.Permission) {
	s := Span{string(perm.Key), string(perm.RangeEnd)}
	if s.End == "" {
		s.End = s.From + "\x00"
	}
	if perm.PermType != authpb.WRITE {
		g.read = append(g.read, s)
	}
	if perm.PermType != authpb.READ {
		g.write = append(g.write, s)
	}
}

// merged joins spans that touch, as etcd does.
func merged(spans []Span) (out []Span) {
	slices.SortFunc(spans, func(a, b Span) int { return strings.Compare(a.From, b.From) })
	for _, s := range spans {
		n := len(out)
		if n == 0 || out[n-1].End != "\x00" && out[n-1].End < s.From {
			out = append(out, s)
			continue
		}
		if last := &out[n-1]; last.End != "\x00" && (s.End == "\x00" || s.End > last.End) {
			last.End = s.End
		}
	}
	return out
}

// Readable returns the parts of a span that may be read, and whether they are all of it.
func (g Granted) Readable(want Span) (parts []Span, whole bool) { return g.within(g.read, want) }

// Writable tells whether all of a span may be written.
func (g Granted) Writable(want Span) bool {
	_, whole := g.within(g.write, want)
	return whole
}

func (g Granted) within(granted []Span, want Span) (parts []Span, whole bool) {
	if g.Everything {
		return []Span{want}, true
	}
	for _, s := range granted {
		if c, ok := s.cut(want); ok {
			parts = append(parts, c)
			whole = whole || s.holds(want)
		}
	}
	return parts, whole
}

// Identities are those whose lanes the user may write, where a role is for an identity.
func (g Granted) Identities(keys keyspace.Keyspace) (found []string) {
	for _, s := range g.write {
		name, ok := strings.CutPrefix(s.From, keys.Lanes())
		name, dot := strings.CutSuffix(name, ".")
		if identity := escape.Unname(name); ok && dot && keys.LanesOf(identity) == s.From {
			found = append(found, identity)
		}
	}
	return found
}

// Lacks returns those of the permissions that the user does not have.
func (g Granted) Lacks(wanted []Permission) (lacks []Permission) {
	for _, p := range wanted {
		_, mayRead := g.Readable(p.span())
		if p.Type != "write" && !mayRead || p.Type != read && !g.Writable(p.span()) {
			lacks = append(lacks, p)
		}
	}
	return lacks
}

// Others returns what a role holds in etcd beside the permissions, each as "TYPE on KEY" or "TYPE on KEY to END"; nothing for
// a role that does not exist. It needs the root role.
func Others(ctx context.Context, client *clientv3.Client, name string, permissions []Permission) (others []string, err error) {
	have, err := client.RoleGet(ctx, name)
	if errors.Is(err, rpctypes.ErrRoleNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the permissions of role %s: %w", name, err)
	}
	for _, perm := range have.Perm {
		if !slices.ContainsFunc(permissions, func(p Permission) bool { return p.covers(perm) }) {
			what := strings.ToLower(perm.PermType.String()) + " on " + escape.Text(string(perm.Key))
			if len(perm.RangeEnd) > 0 {
				what += " to " + escape.Text(string(perm.RangeEnd))
			}
			others = append(others, what)
		}
	}
	return others, nil
}

// covers tells whether a grant of etcd is on these keys, and no more than p.
func (p Permission) covers(perm *authpb.Permission) bool {
	return string(perm.Key) == p.Key && string(perm.RangeEnd) == p.end() && (p.Type == readwrite || strings.EqualFold(perm.PermType.String(), p.Type))
}

// Apply makes a role, or adds what it lacks. It takes nothing away, and doing it again changes nothing. It needs the
// root role.
func Apply(ctx context.Context, client *clientv3.Client, name string, permissions []Permission) error {
	if _, err := client.RoleAdd(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add role %s: %w", name, err)
	}
	types := map[string]clientv3.PermissionType{
		read: clientv3.PermissionType(clientv3.PermRead), "write": clientv3.PermissionType(clientv3.PermWrite),
		readwrite: clientv3.PermissionType(clientv3.PermReadWrite),
	}
	for _, p := range permissions {
		if _, err := client.RoleGrantPermission(ctx, name, p.Key, p.end(), types[p.Type]); err != nil {
			return fmt.Errorf("grant %s on %s to role %s: %w", p.Type, p.Key, name, err)
		}
	}
	return nil
}
