package cli

import "sync"

// InOrder calls do for 0..n-1, at most width of them at once, and emit with each answer, in order and one at a time. It
// begins nothing more once stop is closed or emit has returned an error, which it returns; what was begun is emitted all
// the same, unless emit failed. It returns, with how many were begun, when all of them have ended.
func InOrder[R any](stop <-chan struct{}, n, width int, do func(i int) R, emit func(i int, r R) error) (begun int, err error) {
	var wg sync.WaitGroup
	enough := make(chan struct{})
	answers := make(chan chan R, width)
	wg.Go(func() {
		defer close(answers)
		for i := range n {
			answer := make(chan R, 1)
			select {
			case <-stop:
				return
			case <-enough:
				return
			default:
			}
			select {
			case <-stop:
				return
			case <-enough:
				return
			case answers <- answer:
			}
			wg.Go(func() { answer <- do(i) })
		}
	})
	for answer := range answers {
		r := <-answer
		if err == nil {
			if err = emit(begun, r); err != nil {
				close(enough)
			}
		}
		begun++
	}
	wg.Wait()
	return begun, err
}

// AtOnce is how many of many jobs are under way together: enough for the group commit to batch them.
const AtOnce = 256
