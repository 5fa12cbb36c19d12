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
)

// span is a range of keys; end "\x00" means that there is none.
type span struct{ from, end string }

func (p Permission) span() span {
	if end := p.end(); end != "" {
		return span{p.Key, end}
	}
	return span{p.Key, p.Key + "\x00"}
}

// holds tells whether the whole of o is in s.
func (s span) holds(o span) bool {
	return s.from <= o.from && (s.end == "\x00" || o.end != "\x00" && o.end <= s.end)
}

// Granted is what a user may do.
type Granted struct {
	// User is the name, "" where nobody is logged in.
	User string `json:"user"`
	// Roles are the user's roles.
	Roles []string `json:"roles"`
	// Everything tells that nothing is refused: the root role, or authentication is off.
	Everything bool `json:"everything"`

	read, write []span
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
	s := span{string(perm.Key), string(perm.RangeEnd)}
	if s.end == "" {
		s.end = s.from + "\x00"
	}
	if perm.PermType != authpb.WRITE {
		g.read = append(g.read, s)
	}
	if perm.PermType != authpb.READ {
		g.write = append(g.write, s)
	}
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

// Lacks returns those of the permissions that the user does not have.
func (g Granted) Lacks(wanted []Permission) (lacks []Permission) {
	if g.Everything {
		return nil
	}
	for _, p := range wanted {
		mayRead := p.Type == "write" || within(g.read, p.span())
		mayWrite := p.Type == read || within(g.write, p.span())
		if !mayRead || !mayWrite {
			lacks = append(lacks, p)
		}
	}
	return lacks
}

func within(granted []span, want span) bool {
	return slices.ContainsFunc(granted, func(s span) bool { return s.holds(want) })
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
