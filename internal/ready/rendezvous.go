package ready

// hash64 is FNV-1a with a final mix (the finaliser of MurmurHash3), so that
// names that differ only at their end spread over all bits.
//
// A job's order of preference among the processes that can work it is that of
// mix(job^process), highest first: rendezvous hashing (Thaler and Ravishankar,
// 1998). All processes compute the same order from the same peers, so they do not
// collide, and a peer that comes or goes moves only its own share.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
