// Package faultproxy is a TCP proxy that stands before a server and makes the
// network misbehave in ways that a test chooses: it holds bytes back, loses
// them together with their connection, or refuses connections. It never
// reorders, duplicates or corrupts the bytes of a connection, so what is held
// back and let go later is still a valid stream.
//
// # Modes
//
//	Heal            requests and answers pass (the mode at the start)
//	Slow            requests and answers pass, late
//	Pause           nothing passes, in either direction; bytes are kept
//	PauseAnswers    requests pass, answers are kept
//	PauseRequests   answers pass, requests are kept
//	Refuse          connections are cut, and new ones as soon as they are made
//
// A mode holds for all connections, new ones included, until another one is
// chosen. Two events cut the connections that exist and leave the mode alone:
//
//	Drop            cuts both sides; what was kept is lost
//	Sever           cuts the client's side only; requests that were kept are
//	                delivered later, by Deliver, in every mode
//
// # Faults made of these
//
// A request that took effect and whose answer is lost: PauseAnswers, send,
// WaitAnswers, Drop, Heal. A request that arrives long after its sender gave
// up: PauseRequests, send, WaitRequests, Sever, Heal, ..., Deliver. A server
// that is a black hole: Pause.
//
// # Knowing instead of sleeping
//
// Wait* block until something is held back. WaitHeld counts bytes, whatever
// they are; HTTP/2 sends some that answer nothing (window updates, pings).
// WaitAnswers and WaitRequests read HTTP/2 frame headers and count ended
// streams, which for gRPC means complete unary calls. They need plain text.
package faultproxy
