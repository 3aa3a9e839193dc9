package object

// What the local-path provisioner and the node agents have agreed on. The provisioner, in the control plane, makes the volumes' objects; the agent
// of the volume's node makes the folder with its first use, and removes it before it takes the finalizer off a volume that is deleted.
const (
	// LocalPathProvisioner is the provisioner's name in StorageClasses.
	LocalPathProvisioner = "howdah.dev/local-path"
	// LocalPathFinalizer holds a volume until its node has removed the folder.
	LocalPathFinalizer = "howdah.dev/local-path"
	// LocalPathNodeLabel of a volume names its node. An agent may follow the volumes with its own name, and no others.
	LocalPathNodeLabel = "howdah.dev/local-path-node"
	// LocalPathDir is where volumes lie on nodes, each in a folder of its name; the parameter "path" of a StorageClass names another place.
	LocalPathDir = "/var/lib/howdah/local-path"
)
