package workqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/usercode"
)

// EnqueueJSON adds one job of a kind with in as its payload, in JSON: the other end
// of [HandleJSON]. It blocks and fails as [Queue.Enqueue] does, which takes whatever
// else a job may have; an in that cannot be encoded is an error, and nothing was
// written.
func EnqueueJSON[In any](ctx context.Context, q *Queue, kind string, in In) (*Job, error) {
	payload, err := toJSON(in)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: encode payload: %w", q.core.Name(), err)
	}
	return q.Enqueue(ctx, Params{Kind: kind, Payload: payload})
}

// WaitJSON waits for a job as [Queue.Wait] does and decodes its result from JSON as
// [HandleJSON] decodes a payload; a job without a result gives the zero value. A job
// that is dead or cancelled has no result: the error holds why, and matches
// [ErrNotApplicable], and [ErrCancelled] too where it was cancelled.
func WaitJSON[Out any](ctx context.Context, q *Queue, id string) (out Out, err error) {
	j, err := q.Wait(ctx, id)
	if err != nil {
		return out, err
	}
	if err := j.noResult(); err != nil {
		return out, fmt.Errorf("result of job %s of %s: %w", id, q.core.Name(), err)
	}
	if err := fromJSON(j.Result, &out); err != nil {
		return out, fmt.Errorf("result of job %s of %s: decode: %w", id, q.core.Name(), err)
	}
	return out, nil
}

// noResult is why a job that is over has no result.
func (j *Job) noResult() error {
	switch j.State {
	case StateDone:
		return nil
	case StateCancelled:
		return fmt.Errorf("%w: %w: %s", ErrNotApplicable, ErrCancelled, j.Error)
	}
	return fmt.Errorf("%w: it is %s: %s", ErrNotApplicable, j.State, j.Error)
}

// HandleJSON registers a function that takes its payload, and gives its result, as
// JSON; a job without a payload gives it the zero value. Numbers keep all their digits:
// where In leaves their type open, as in map[string]any, they are [json.Number]. A
// payload that does not decode buries the job at once: no further attempt would read
// it better. It panics as [Mux.Register] does.
func HandleJSON[In, Out any](m *Mux, kind string, f func(ctx context.Context, c *Claim, in In) (Out, error)) {
	if f == nil {
		m.Register(kind, nil)
	}
	m.Register(kind, HandlerFunc(func(ctx context.Context, c *Claim) ([]byte, error) {
		var in In
		if err := fromJSON(c.Job().Payload, &in); err != nil {
			return nil, Permanent(fmt.Errorf("decode payload: %w", err))
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		result, err := toJSON(out)
		if err != nil {
			return nil, Permanent(fmt.Errorf("encode result: %w", err))
		}
		return result, nil
	}))
}

// toJSON is job.EncodeJSON for a value of the caller's, whose methods may panic.
func toJSON(v any) (b []byte, err error) {
	err = usercode.Call(func() error {
		b, err = job.EncodeJSON(v)
		return err
	})
	return b, err
}

// fromJSON decodes one value into v, which stays as it is when b is empty. A float64
// would change large numbers silently, so numbers of no type stay text.
func fromJSON(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	return usercode.Call(func() error {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		if err := dec.Decode(v); err != nil {
			return err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return errors.New("something follows the value")
		}
		return nil
	})
}
