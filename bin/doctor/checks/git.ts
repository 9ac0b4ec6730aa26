/** Tells whether this machine's git is there, and new enough for what the configuration asks of it. */
import { explainOldGit, isGitTooOld } from '../../../core/git-version.ts'
import { type Check, fail, ok, splitCure, warn } from '../finding.ts'

export const gitCheck: Check = {
  id: 'git',
  places: ['host', 'worker'],
  async judge({ git, config }) {
    const found = await git()
    if (!found.ok) return [fail(...splitCure(found.refusal.message))]
    const version = found.value
    if (version === undefined) return [warn('git does not say which version it is', 'git version')]
    const read = await config()
    const mergesHere = read.ok && read.value.codehost.driver === 'local'
    const old = [
      ...(mergesHere && isGitTooOld(version, 'merges')
        ? [explainOldGit('merging in the local code host', version, 'merges')]
        : []),
      ...(isGitTooOld(version, 'pinnedHosts')
        ? [
            explainOldGit(
              'connecting to exactly the checked address of an https host',
              version,
              'pinnedHosts',
            ),
          ]
        : []),
    ]
    return old.length === 0 ? [ok(`git ${version}`)] : old.map((text) => warn(...splitCure(text)))
  },
}
