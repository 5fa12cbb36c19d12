package simulate

// mean is the arithmetic mean; nil of nothing, so that nothing is not shown as zero.
func mean(samples []float64) *float64 {
	if len(samples) == 0 {
		return nil
	}
	sum := 0.0
	for _, x := range samples {
		sum += x
	}
	m := sum / float64(len(samples))
	return &m
}

// meanOf is the mean over trials of a figure that every trial has.
func meanOf(trials []*outcome, figure func(*outcome) float64) float64 {
	if m := mean(samplesOf(trials, figure)); m != nil {
		return *m
	}
	return 0
}

// samplesOf lists a figure that every trial has.
func samplesOf(trials []*outcome, figure func(*outcome) float64) []float64 {
	samples := make([]float64, len(trials))
	for i, t := range trials {
		samples[i] = figure(t)
	}
	return samples
}

// gather joins what each trial has any number of.
func gather(trials []*outcome, figures func(*outcome) []float64) []float64 {
	var all []float64
	for _, t := range trials {
		all = append(all, figures(t)...)
	}
	return all
}

// countTrials is in how many trials something holds.
func countTrials(trials []*outcome, holds func(*outcome) bool) int {
	n := 0
	for _, t := range trials {
		if holds(t) {
			n++
		}
	}
	return n
}
