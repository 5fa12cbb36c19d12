package job

import (
	"encoding/json"
	"time"
)

// recordFields are the fields of a record, in their order: what the struct's tags say.
var recordFields = []field[Record]{
	text("w", true, func(r *Record) *string { return &r.Nonce }),
	whole("v", true, func(r *Record) *int { return &r.Version }),
	text("id", true, func(r *Record) *string { return &r.ID }),
	text("born", true, func(r *Record) *string { return &r.Born }),
	text("kind", false, func(r *Record) *string { return &r.Kind }),
	raw("payload", func(r *Record) *json.RawMessage { return &r.Payload }),
	text("payload_text", false, func(r *Record) *string { return &r.PayloadText }),
	base64Bytes("payload_base64", func(r *Record) *[]byte { return &r.Payload64 }),
	whole("payload_beside", false, func(r *Record) *int { return &r.Beside }),
	texts("labels", func(r *Record) *map[string]string { return &r.Labels }),
	texts("trace", func(r *Record) *map[string]string { return &r.Trace }),
	whole("priority", false, func(r *Record) *int { return &r.Priority }),
	whole("seq", false, func(r *Record) *uint64 { return &r.Seq }),
	moment("run_at", func(r *Record) *time.Time { return &r.RunAt }),
	whole("timeout_ms", false, func(r *Record) *int64 { return &r.TimeoutMS }),
	whole("max_attempts", false, func(r *Record) *int { return &r.MaxAttempts }),
	whole("max_losses", false, func(r *Record) *int { return &r.MaxLosses }),
	truth("at_most_once", func(r *Record) *bool { return &r.AtMostOnce }),
	moment("enqueued_at", func(r *Record) *time.Time { return &r.EnqueuedAt }),
	whole("attempt", false, func(r *Record) *int { return &r.Attempt }),
	whole("failures", false, func(r *Record) *int { return &r.Failures }),
	whole("losses", false, func(r *Record) *int { return &r.Losses }),
	text("owner", false, func(r *Record) *string { return &r.Owner }),
	quoted("owner_rev", func(r *Record) *int64 { return &r.OwnerRev }),
	moment("claimed_at", func(r *Record) *time.Time { return &r.ClaimedAt }),
	truth("assigned", func(r *Record) *bool { return &r.Assigned }),
	text("outcome", false, func(r *Record) *string { return &r.Outcome }),
	moment("finished_at", func(r *Record) *time.Time { return &r.FinishedAt }),
	text("error", false, func(r *Record) *string { return &r.Error }),
	raw("result", func(r *Record) *json.RawMessage { return &r.Result }),
	text("result_text", false, func(r *Record) *string { return &r.ResultText }),
	base64Bytes("result_base64", func(r *Record) *[]byte { return &r.Result64 }),
	whole("attempts_total", false, func(r *Record) *int { return &r.LogTotal }),
	objects("attempts", attemptFields, func(r *Record) *[]Attempt { return &r.Attempts }),
}

// attemptFields are those of an entry of the audit trail.
var attemptFields = []field[Attempt]{
	whole("attempt", true, func(a *Attempt) *int { return &a.Attempt }),
	text("owner", false, func(a *Attempt) *string { return &a.Owner }),
	quoted("token", func(a *Attempt) *Token { return &a.Token }),
	moment("claimed_at", func(a *Attempt) *time.Time { return &a.ClaimedAt }),
	moment("ended_at", func(a *Attempt) *time.Time { return &a.EndedAt }),
	text("outcome", true, func(a *Attempt) *string { return &a.Outcome }),
	text("error", false, func(a *Attempt) *string { return &a.Error }),
	text("actor", false, func(a *Attempt) *string { return &a.Actor }),
	text("reason", false, func(a *Attempt) *string { return &a.Reason }),
	text("from", false, func(a *Attempt) *string { return &a.From }),
	truth("counted", func(a *Attempt) *bool { return &a.Counted }),
	whole("repeated", false, func(a *Attempt) *int { return &a.Repeated }),
}
