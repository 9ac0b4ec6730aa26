/**
 * Knows which features need which version of git, and says what to do when git is older.
 *
 * `runs`: `fetch --no-write-fetch-head` and `init --initial-branch` of the worker. `merges`: `merge-tree --write-tree` of
 * the local code host. `pinnedHosts`: `http.curloptResolve`; an older git ignores it and resolves the name again.
 */
export const GIT_NEEDED = { runs: '2.29', merges: '2.38', pinnedHosts: '2.37' } as const

const HOW_TO_UPDATE =
  'install a newer one: Debian 12 and Ubuntu 24.04 have one, for an older Ubuntu: sudo add-apt-repository ppa:git-core/ppa && sudo apt-get update && sudo apt-get install git'

/** Reads the answer of `git version`, such as `git version 2.39.5 (Apple Git-154)`. */
export function parseGitVersion(answer: string): string | undefined {
  return /^git version (\d{1,4}(?:\.\d{1,4}){1,3})/.exec(answer)?.[1]
}

/** An unknown version counts as new enough: git's own error then says what is missing. */
export function isGitTooOld(version: string | undefined, feature: keyof typeof GIT_NEEDED): boolean {
  if (version === undefined) return false
  const [found, needed] = [version, GIT_NEEDED[feature]].map((text) => text.split('.').map(Number))
  const [major = 0, minor = 0] = found ?? []
  const [majorNeeded = 0, minorNeeded = 0] = needed ?? []
  return major === majorNeeded ? minor < minorNeeded : major < majorNeeded
}

/** @param what the subject of the sentence, such as `a worker` */
export function explainOldGit(what: string, version: string, feature: keyof typeof GIT_NEEDED): string {
  return `${what} needs git ${GIT_NEEDED[feature]} or newer, and this machine has ${version}; ${HOW_TO_UPDATE}`
}
