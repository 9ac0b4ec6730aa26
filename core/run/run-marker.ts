/**
 * The marker at the end of a pull request's description, which names the run and the lease that opened it.
 *
 * The host adopts a pull request only when the marker names a lease that the host has granted to the run.
 */
export function runMarker({ runId, leaseId }: { readonly runId: string; readonly leaseId: string }): string {
  return `<!-- switchyard run=${runId} lease=${leaseId} -->`
}

/** A description that people edit may hold a few markers; more are ignored. */
const MARKERS_MAX = 10
const MARKER = /^<!-- switchyard run=([\w-]{1,100}) lease=([\w-]{1,100}) -->\s*$/gm

/** Returns the leases that the markers in a description name for this run. */
export function leasesInMarkers(body: string, runId: string): string[] {
  return [...body.matchAll(MARKER)]
    .slice(0, MARKERS_MAX)
    .flatMap(([, run, lease = '']) => (run === runId ? [lease] : []))
}
