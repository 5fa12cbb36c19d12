package workqueue

// These hunts take compares out of the repairs of operators.
func init() {
	wideWorlds = append(wideWorlds, editing1, movingTheDead, deleting1, deletingTheDone, deletingTheDead, salvagingRenamed, breakingAssigned, salvagingAssigned)
	hunts = append(hunts,
		hunt{"edit", "job mod =", editing1.calm().onlyRevisions()},
		hunt{"relocate", "job mod =", moving1.calm().without("checkpoint x").onlyRevisions()},
		hunt{"relocate", "progress mod =", moving1},
		hunt{"relocate", "there create =,there done create =,there dead create =", movingThere},
		hunt{"relocate", "dead mod =", movingTheDead.onlyRevisions()},
		hunt{"remove", "job mod =", deleting1.calm().without("checkpoint x").onlyRevisions()},
		hunt{"remove", "done mod =", deletingTheDone.onlyRevisions()},
		hunt{"remove", "dead mod =", deletingTheDead.onlyRevisions()},
		hunt{"salvage", "job mod =", salvaging1},
		hunt{"salvage", "job mod =", salvagingRenamed.without("checkpoint x").onlyRevisions()},
		hunt{"salvage", "done mod =", salvagingTheDone},
		hunt{"salvage", "dead mod =", salvagingTheDead},
		hunt{"salvage", "dead create =", salvagingLitter},
		hunt{"restore", "job mod =,done mod =,dead mod =", importing1},
		hunt{"disband", "config mod =,jobs create =,done jobs create =,dead jobs create =,workers mod <", disbanding},
		hunt{"intervene", "job create =", salvagingLitter},
	)
	for _, r := range [][]hunt{
		restores("edit", "job", editing2), restores("relocate", "job", moving2), restores("relocate", "dead", movingTheDead2),
		restores("remove", "job", deleting2), restores("remove", "done", deletingTheDone2), restores("remove", "dead", deletingTheDead2),
		restores("salvage", "job", salvaging2), restores("salvage", "done", salvagingTheDone2), restores("salvage", "dead", salvagingTheDead2),
	} {
		hunts = append(hunts, r...)
	}
}

// The worlds in which operators repair, each beside those who might be in the way.
var (
	editing1 = stageSet{
		name: "edits", cast: []string{"w1", "op", "op2", "en"}, setup: []string{"enqueue en x 1"},
		calls: calls{"w1": {"claim x", "complete x", "release x"}, "op": {"edit x 2", "edit x large"}, "op2": {"edit x 3 breaking", "cancel x"}},
		max:   most{"w1": 2, "op": 2, "op2": 1}, faults: spent{lost: 1},
	}
	moving1 = stageSet{
		name: "moves", cast: []string{"w1", "op", "en", "q2"}, setup: []string{"enqueue en x large", "claim w1 x"},
		calls: calls{"w1": {"checkpoint x", "complete x", "release x", "claim x@q2"}, "op": {"move x q2", "move x q2 breaking", "move x@q2 q"}},
		max:   most{"w1": 3, "op": 2}, faults: spent{lost: 1},
	}
	movingThere = stageSet{
		name: "moves to where one is", cast: []string{"op", "op2", "en", "q2"}, setup: []string{"enqueue en x 1"},
		calls: calls{"op": {"move x q2"}, "op2": {"cancel x@q2", "bury x@q2", "move x@q2 q"}, "en": {"enqueue x@q2 2", "enqueue x@q2 over", "enqueue x"}},
		max:   most{"op": 1, "op2": 1, "en": 2}, faults: spent{lost: 1, forgotten: 1},
	}
	movingTheDead = stageSet{
		name: "moves of the dead", cast: []string{"w1", "op", "op2", "en", "q2"}, setup: []string{"enqueue en x large", "bury op x"},
		calls: calls{"w1": {"claim x", "fail x for-good"}, "op": {"move x q2"}, "op2": {"requeue x", "requeue x@q2"}},
		max:   most{"w1": 2, "op": 1, "op2": 1}, faults: spent{lost: 1},
	}
	deleting1 = stageSet{
		name: "deletes", cast: []string{"w1", "op", "op2", "en"}, setup: []string{"enqueue en x large", "claim w1 x"},
		calls: calls{"w1": {"checkpoint x", "release x", "complete x", "claim x"}, "op": {"delete x", "delete x breaking"}, "op2": {"edit x 2 breaking"}, "en": {"enqueue x"}},
		max:   most{"w1": 2, "op": 1, "op2": 1, "en": 1}, faults: spent{lost: 1},
	}
	deletingTheDone = stageSet{
		name: "deletes of the done", cast: []string{"op", "op2", "op3", "en"}, setup: []string{"enqueue en x", "cancel op x"},
		calls: calls{"op": {"delete x"}, "op2": {"requeue x"}, "op3": {"cancel x"}, "en": {"enqueue x", "enqueue x over"}},
		max:   most{"op": 1, "op2": 1, "op3": 1, "en": 1}, faults: spent{forgotten: 1},
	}
	deletingTheDead = stageSet{
		name: "deletes of the dead", cast: deletingTheDone.cast, setup: []string{"enqueue en x large", "bury op x"},
		calls: calls{"op": {"delete x"}, "op2": {"requeue x"}, "op3": {"bury x"}, "en": {"enqueue x", "enqueue x over"}},
		max:   most{"op": 1, "op2": 1, "op3": 1, "en": 1},
	}
	salvaging1 = stageSet{
		name: "salvages", cast: []string{"w1", "op", "op2", "op3", "en"}, setup: []string{"enqueue en x large", "claim w1 x"},
		calls: calls{"w1": {"complete x", "checkpoint x", "claim x"}, "op": {"salvage x", "delete x"}, "op2": {"salvage x"}, "op3": {"requeue x", "cancel x"}},
		max:   most{"w1": 3, "op": 1, "op2": 1, "op3": 2}, hands: []string{"garble x"}, faults: spent{hands: 1},
	}
	salvagingRenamed = stageSet{
		name: "salvages of the renamed", cast: salvaging1.cast, setup: []string{"enqueue en x 1", "claim w1 x"}, calls: salvaging1.calls,
		max: salvaging1.max, hands: []string{"rename x"}, faults: spent{hands: 1},
	}
	salvagingTheDone = stageSet{
		name: "salvages of the done", cast: []string{"op", "op2", "en"}, setup: []string{"enqueue en x 1", "cancel op x"},
		calls: calls{"op": {"salvage x"}, "op2": {"salvage x", "requeue x"}, "en": {"enqueue x", "enqueue x over"}},
		max:   most{"op": 1, "op2": 2, "en": 1}, hands: []string{"garble x", "rename x"}, faults: spent{hands: 1, forgotten: 1},
	}
	salvagingTheDead = stageSet{
		name: "salvages of the dead", cast: []string{"op", "op2", "op3", "en"}, setup: []string{"enqueue en x 1", "bury op x"},
		calls: calls{"op": {"salvage x"}, "op2": {"salvage x"}, "op3": {"requeue x", "bury x"}},
		max:   most{"op": 1, "op2": 1, "op3": 2}, hands: []string{"garble x", "rename x"}, faults: spent{hands: 1},
	}
	salvagingLitter = stageSet{
		name: "salvages beside the dead", cast: []string{"op", "op2", "en"}, setup: []string{"enqueue en x 1", "bury op x"},
		calls: calls{"op": {"salvage x"}, "op2": {"delete x", "requeue x"}, "en": {"enqueue x over"}},
		max:   most{"op": 1, "op2": 1, "en": 1}, hands: []string{"litter x"}, faults: spent{hands: 1},
	}
	importing1 = stageSet{
		name: "imports", cast: []string{"w1", "op", "op2", "en"}, setup: []string{"enqueue en x 1", "export x", "delete op x"},
		calls: calls{
			"w1": {"claim x", "checkpoint x", "fail x for-good"}, "op": {"import x", "import x replace"},
			"op2": {"import x", "cancel x", "edit x 3"}, "en": {"enqueue x large"},
		},
		max: most{"w1": 3, "op": 2, "op2": 1, "en": 1}, faults: spent{lost: 1},
	}
	disbanding = stageSet{
		name: "the end of a queue", cast: []string{"w1", "op", "op2", "op3", "en"}, setup: []string{"pause op"},
		calls: calls{"op": {"disband"}, "op2": {"resume", "pause"}, "op3": {"cancel x", "bury x", "delete x"}, "en": {"enqueue x"}},
		max:   most{"op": 1, "op2": 1, "op3": 1, "en": 1}, hands: []string{"register w1"}, faults: spent{hands: 1, lost: 1, forgotten: 1},
	}
	breakingAssigned = stageSet{
		name: "repairs of the assigned", cast: []string{"w1", "d1", "op", "op2", "op3", "en", "q2"},
		setup: []string{"register w1", "lead d1", "enqueue en x large", "assign d1 x w1"},
		calls: calls{"w1": {"complete x", "release x"}, "op": {"edit x 2 breaking"}, "op2": {"move x q2 breaking"}, "op3": {"delete x breaking"}, "d1": {"assign x w1"}},
		max:   most{"w1": 1, "op": 1, "op2": 1, "op3": 1, "d1": 1}, faults: spent{expired: 1},
	}
	salvagingAssigned = stageSet{
		name: "salvages of the assigned", cast: []string{"w1", "d1", "op", "op2", "en"},
		setup: []string{"register w1", "lead d1", "enqueue en x 1", "assign d1 x w1"},
		calls: calls{"w1": {"complete x", "release x"}, "op": {"salvage x"}, "op2": {"requeue x"}, "d1": {"assign x w1"}},
		max:   most{"w1": 2, "op": 1, "op2": 1, "d1": 1}, hands: []string{"rename x"}, faults: spent{hands: 1},
	}

	// In these etcd is taken back.
	editing2 = stageSet{
		name: "edits", cast: operating2.cast, setup: operating2.setup,
		calls: calls{"op": {"edit x 2 breaking"}, "w2": {"claim x"}}, max: most{"op": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	moving2 = stageSet{
		name: "moves", cast: append([]string{"q2"}, operating2.cast...), setup: operating2.setup,
		calls: calls{"op": {"move x q2 breaking"}, "w2": {"claim x"}}, max: most{"op": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	movingTheDead2 = stageSet{
		name: "moves of the dead", cast: append([]string{"q2"}, raising2.cast...), setup: raising2.setup,
		calls: calls{"op2": {"move x q2"}, "op3": {"bury x"}}, max: most{"op2": 1, "op3": 1}, faults: spent{foreign: 1},
	}
	deleting2 = stageSet{
		name: "deletes", cast: operating2.cast, setup: operating2.setup,
		calls: calls{"op": {"delete x breaking"}, "w2": {"claim x"}}, max: most{"op": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	deletingTheDone2 = stageSet{
		name: "deletes of the done", cast: reviving2.cast, setup: reviving2.setup,
		calls: calls{"op2": {"delete x"}, "op3": {"cancel x"}}, max: most{"op2": 1, "op3": 1}, faults: spent{foreign: 1},
	}
	deletingTheDead2 = stageSet{
		name: "deletes of the dead", cast: raising2.cast, setup: raising2.setup,
		calls: calls{"op2": {"delete x"}, "op3": {"bury x"}}, max: most{"op2": 1, "op3": 1}, faults: spent{foreign: 1},
	}
	salvaging2 = stageSet{
		name: "salvages", cast: []string{"w1", "op", "en"}, setup: []string{"enqueue en x", "backup", "rename x"},
		calls: calls{"op": {"salvage x"}, "w1": {"claim x"}}, max: most{"op": 1, "w1": 1}, faults: spent{foreign: 1},
	}
	salvagingTheDone2 = stageSet{
		name: "salvages of the done", cast: []string{"op", "op2", "en"}, setup: []string{"enqueue en x", "cancel op x", "backup", "foreign", "rename x"},
		calls: calls{"op": {"salvage x"}, "op2": {"requeue x", "cancel x"}}, max: most{"op": 1, "op2": 2}, faults: spent{foreign: 1},
	}
	salvagingTheDead2 = stageSet{
		name: "salvages of the dead", cast: []string{"op", "op2", "en"}, setup: []string{"enqueue en x", "bury op x", "backup", "foreign", "rename x"},
		calls: calls{"op": {"salvage x"}, "op2": {"requeue x", "bury x"}}, max: most{"op": 1, "op2": 2}, faults: spent{foreign: 1},
	}
)
