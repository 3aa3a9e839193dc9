package kubeletconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// flag is the agent's setting that a field is.
type flag struct {
	name  string
	write func(value any) (string, error)
}

// objects are the fields whose own fields the tables name.
var objects = []string{"authentication", "authentication.anonymous", "authentication.webhook", "authentication.x509", "authorization", "authorization.webhook", "crashLoopBackOff", "logging",
	"logging.options", "logging.options.json", "logging.options.text", "memorySwap"}

// flags are the fields that are settings of the agent.
var flags = map[string]flag{
	"allowedUnsafeSysctls":                       {"allowed-unsafe-sysctls", list},
	"authentication.anonymous.enabled":           {"anonymous-auth", plain},
	"authentication.x509.clientCAFile":           {"client-ca-file", plain},
	"clusterDNS":                                 {"cluster-dns", list},
	"clusterDomain":                              {"cluster-domain", plain},
	"containerLogMaxFiles":                       {"container-log-max-files", plain},
	"containerLogMaxSize":                        {"container-log-max-size", plain},
	"containerLogMaxWorkers":                     {"container-log-max-workers", plain},
	"containerLogMonitorInterval":                {"container-log-monitor-interval", plain},
	"containerRuntimeEndpoint":                   {"cri", plain},
	"cpuCFSQuota":                                {"cpu-cfs-quota", plain},
	"cpuManagerPolicy":                           {"cpu-manager-policy", plain},
	"cpuManagerPolicyOptions":                    {"cpu-manager-policy-options", pairs("=")},
	"cpuManagerReconcilePeriod":                  {"cpu-manager-reconcile-period", plain},
	"crashLoopBackOff.maxContainerRestartPeriod": {"max-container-restart-period", plain},
	"enableSystemLogQuery":                       {"enable-system-log-query", plain},
	"enforceNodeAllocatable":                     {"enforce-node-allocatable", list},
	"evictionHard":                               {"eviction-hard", pairs("<")},
	"evictionMaxPodGracePeriod":                  {"eviction-max-pod-grace-period", plain},
	"evictionMinimumReclaim":                     {"eviction-minimum-reclaim", pairs("=")},
	"evictionPressureTransitionPeriod":           {"eviction-pressure-transition-period", plain},
	"evictionSoft":                               {"eviction-soft", pairs("<")},
	"evictionSoftGracePeriod":                    {"eviction-soft-grace-period", pairs("=")},
	"fileCheckFrequency":                         {"file-check-frequency", plain},
	"healthzBindAddress":                         {"healthz-bind-address", plain},
	"healthzPort":                                {"healthz-port", plain},
	"httpCheckFrequency":                         {"http-check-frequency", plain},
	"imageGCHighThresholdPercent":                {"image-gc-high-threshold", plain},
	"imageGCLowThresholdPercent":                 {"image-gc-low-threshold", plain},
	"imageMaximumGCAge":                          {"maximum-image-ttl-duration", plain},
	"imageMinimumGCAge":                          {"minimum-image-ttl-duration", plain},
	"imagePullCredentialsVerificationPolicy":     {"image-pull-credentials-verification-policy", plain},
	"kubeReserved":                               {"kube-reserved", pairs("=")},
	"maxParallelImagePulls":                      {"max-parallel-image-pulls", plain},
	"maxPods":                                    {"max-pods", plain},
	"memoryManagerPolicy":                        {"memory-manager-policy", plain},
	"memorySwap.swapBehavior":                    {"swap-behavior", plain},
	"mergeDefaultEvictionSettings":               {"merge-default-eviction-settings", plain},
	"nodeLeaseDurationSeconds":                   {"node-lease-duration", seconds},
	"nodeStatusMaxImages":                        {"node-status-max-images", plain},
	"nodeStatusReportFrequency":                  {"node-status-report-frequency", plain},
	"nodeStatusUpdateFrequency":                  {"node-status-update-frequency", plain},
	"podPidsLimit":                               {"pod-max-pids", plain},
	"podsPerCore":                                {"pods-per-core", plain},
	"port":                                       {"kubelet-port", plain},
	"preloadedImagesVerificationAllowlist":       {"preloaded-images-verification-allowlist", list},
	"protectKernelDefaults":                      {"protect-kernel-defaults", plain},
	"readOnlyPort":                               {"read-only-port", plain},
	"registerWithTaints":                         {"register-with-taints", items(",", taint)},
	"reservedMemory":                             {"reserved-memory", items(";", reservedMemory)},
	"reservedSystemCPUs":                         {"reserved-cpus", plain},
	"resolvConf":                                 {"resolv-conf", plain},
	"rotateCertificates":                         {"rotate-certificates", plain},
	"seccompDefault":                             {"seccomp-default", plain},
	"serializeImagePulls":                        {"serialize-image-pulls", plain},
	"serverTLSBootstrap":                         {"rotate-server-certificates", plain},
	"shutdownGracePeriod":                        {"shutdown-grace-period", plain},
	"shutdownGracePeriodByPodPriority":           {"shutdown-grace-period-by-pod-priority", items(",", graceOfPriority)},
	"shutdownGracePeriodCriticalPods":            {"shutdown-grace-period-critical-pods", plain},
	"staticPodPath":                              {"pod-manifest-path", plain},
	"staticPodURL":                               {"manifest-url", plain},
	"staticPodURLHeader":                         {"manifest-url-header", headers},
	"systemReserved":                             {"system-reserved", pairs("=")},
	"tlsCertFile":                                {"tls-cert-file", plain},
	"tlsCipherSuites":                            {"tls-cipher-suites", list},
	"tlsMinVersion":                              {"tls-min-version", plain},
	"tlsPrivateKeyFile":                          {"tls-private-key-file", plain},
	"topologyManagerPolicy":                      {"topology-manager-policy", plain},
	"topologyManagerPolicyOptions":               {"topology-manager-policy-options", pairs("=")},
	"topologyManagerScope":                       {"topology-manager-scope", plain},
	"volumeStatsAggPeriod":                       {"volume-stats-agg-period", plain},
}

// fixed are the fields that say of the agent what can only be so.
var fixed = map[string][]string{
	"address":                                    {"0.0.0.0", "::"},
	"authentication.webhook.cacheTTL":            {"2m0s", "2m"},
	"authentication.webhook.enabled":             {"true"},
	"authorization.mode":                         {"Webhook"},
	"authorization.webhook.cacheAuthorizedTTL":   {"5m0s", "5m"},
	"authorization.webhook.cacheUnauthorizedTTL": {"30s"},
	"cgroupDriver":                               {"cgroupfs"},
	"cgroupsPerQOS":                              {"true"},
	"contentType":                                {"application/vnd.kubernetes.protobuf"},
	"cpuCFSQuotaPeriod":                          {"100ms"},
	"enableControllerAttachDetach":               {"true"},
	"enableDebugFlagsHandler":                    {"true"},
	"enableDebuggingHandlers":                    {"true"},
	"enableProfilingHandler":                     {"true"},
	"enableServer":                               {"true"},
	"enableSystemLogHandler":                     {"true"},
	"failCgroupV1":                               {"false"},
	"failSwapOn":                                 {"false"},
	"kernelMemcgNotification":                    {"false"},
	"localStorageCapacityIsolation":              {"true"},
	"logging.flushFrequency":                     {"0", "5000000000", "5s"},
	"logging.format":                             {"json"},
	"logging.options.json.infoBufferSize":        {"0"},
	"logging.options.text.infoBufferSize":        {"0"},
	"logging.verbosity":                          {"0"},
	"makeIPTablesUtilChains":                     {"false"},
	"podLogsDir":                                 {"/var/log/pods"},
	"registerNode":                               {"true"},
	"syncFrequency":                              {"1m0s", "1m"},
}

func taint(t map[string]any) string {
	key := fmt.Sprint(t["key"])
	if value, ok := t["value"]; ok && value != "" {
		key += "=" + fmt.Sprint(value)
	}
	return key + ":" + fmt.Sprint(t["effect"])
}

func reservedMemory(m map[string]any) string {
	limits, _ := pairs("=")(m["limits"])
	node := m["numaNode"]
	if node == nil {
		node = 0
	}
	return fmt.Sprintf("%v:%s", node, limits)
}

func graceOfPriority(g map[string]any) string {
	part := func(name string) string {
		if g[name] == nil {
			return "0"
		}
		return fmt.Sprint(g[name])
	}
	return part("priority") + "=" + part("shutdownGracePeriodSeconds") + "s"
}

// headers writes NAME:VALUE, each in quotes where it has a comma in it.
func headers(value any) (string, error) {
	all, _ := value.(map[string]any)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values, _ := all[name].([]any)
		for _, v := range values {
			text := name + ":" + fmt.Sprint(v)
			if strings.ContainsAny(text, "\r\n") {
				return "", errors.New("a header is one line")
			}
			out = append(out, `"`+strings.ReplaceAll(text, `"`, `""`)+`"`)
		}
	}
	return strings.Join(out, ","), nil
}
