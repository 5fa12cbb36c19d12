package coord

// RenewNow sends a renewal at once, besides those that the session sends itself.
func (s *Session) RenewNow() error { return s.renewOnce(s.life) }

// Doubt has the session look at its key, as after renewals that stumbled.
func (s *Session) Doubt() { s.doubt() }
