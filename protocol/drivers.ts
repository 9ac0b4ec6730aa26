/**
 * The drivers of trackers and code hosts by name, and what the configuration and the core must know of each.
 *
 * `providers/tracker/` and `providers/codehost/` implement them.
 */

interface DriverFacts {
  /** The service as people call it; absent for a folder. */
  readonly productName?: string
  /** The address that an absent `apiUrl` means. */
  readonly publicApiUrl?: string
  /** The content of the folder `path`. Only a driver that works on a folder of this machine has it; it needs no credential. */
  readonly folderHolds?: string
}

interface TrackerFacts extends DriverFacts {
  /** Tickets are issues of the configured repositories, so the sections `repos` and `codehost` select them too. */
  readonly listsRepositoryIssues?: true
}

export const GITHUB_API = 'https://api.github.com'
export const LINEAR_API = 'https://api.linear.app'

const TRACKERS = {
  linear: { productName: 'Linear', publicApiUrl: LINEAR_API },
  github: { productName: 'GitHub', publicApiUrl: GITHUB_API, listsRepositoryIssues: true },
  local: { folderHolds: 'the tickets' },
} as const satisfies Readonly<Record<string, TrackerFacts>>

type CodeHostFacts = DriverFacts

const CODE_HOSTS = {
  github: { productName: 'GitHub', publicApiUrl: GITHUB_API },
  local: { folderHolds: 'the bare repositories' },
} as const satisfies Readonly<Record<string, CodeHostFacts>>

export type TrackerDriverName = keyof typeof TRACKERS
export type CodeHostDriverName = keyof typeof CODE_HOSTS

export const TRACKER_FACTS: Readonly<Record<TrackerDriverName, TrackerFacts>> = TRACKERS
export const CODE_HOST_FACTS: Readonly<Record<CodeHostDriverName, CodeHostFacts>> = CODE_HOSTS

export const TRACKER_DRIVERS = Object.keys(TRACKERS) as TrackerDriverName[]
export const CODE_HOST_DRIVERS = Object.keys(CODE_HOSTS) as CodeHostDriverName[]

/** The driver works on a folder of this machine. */
export const isFolder = (driver: DriverFacts): boolean => driver.folderHolds !== undefined
