// Package workqueue shares jobs among workers: each job is worked by one owner at
// a time, survives its owner, and accepts one result.
//
// # States of a job
//
//		          +----------------------- requeue ------------------------+
//		          v                                                        |
//		open --claim--> claimed --complete--> done   (kept for the retention)
//		 ^                |   |
//		 |                |   +--cancel-----> done, cancelled
//		 |                +--fail, reclaim, break: back to open, later --+
//		 |                |                                              |
//		 +----------------+----------------------------------------------+
//		                  +--exhausted, permanent, lost too often--> dead (kept until somebody acts)
//
//	  - open to claimed: a Txn that compares the job's revision and head nonce, the
//	    claimer's session and the queue's config. The revision of its put is the
//	    fencing token.
//	  - claimed to anything, by the owner: a Txn that carries the fence. A late owner
//	    is refused with [coord.FencedError], and evidence is kept.
//	  - claimed to claimed by another (reclaim): as a claim, and the old owner's
//	    session is gone, compared in the same Txn. Nothing else ends a claim from
//	    outside, except somebody who cancels the job or breaks the claim.
//
// A job keeps its key, and so its place in the queue, for its whole life. Failures
// (the handler's) and losses (the process's) are counted apart.
//
// # Promises, and the tests that try to break them
//
//   - At most one accepted result per job, and none under a superseded token.
//   - No job is lost while etcd keeps its data.
//   - One call of Enqueue creates at most one job, however its answer is lost.
//   - A dead owner's job is claimable when its lease ends.
//   - Writes that join a completion are applied exactly once.
//
// # What is not promised
//
// That work runs once: a paused owner may still be running. Give side effects the
// [Claim.IdempotencyKey], or the token. Strict order between jobs. Protection
// against a client that writes our keys by hand.
package workqueue
