package coord

import (
	"flag"
)

var exploreMoreLanes = flag.Bool("explore.more.lanes", false, "search the large worlds too: minutes")
