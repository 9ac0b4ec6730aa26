/** The end of a run, or why it waits, in a row. */
import { changedNothing } from '../../../protocol/changed-nothing.ts'
import type { Run } from '../../../protocol/run.ts'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { BlockerWords, knownBlockers } from '../overview/blocker-words.tsx'
import { waitWords } from '../overview/queue-groups.ts'

export function RunOutcome({ run }: { readonly run: Run }) {
  const { prUrl, prState, pull, error, status, waitReason } = run
  if (status === 'queued') {
    const blockers = knownBlockers(run)
    return (
      <span class="quiet">
        {blockers.length === 0 ? (
          waitWords(run)
        ) : (
          <>
            Blocked: <BlockerWords blockers={blockers} />
          </>
        )}
      </span>
    )
  }
  if (waitReason !== undefined) return <span class="quiet">{waitReason}</span>
  if (status === 'failed') return <code class="tone-bad">{error}</code>
  if (prState === undefined && prUrl !== undefined)
    return <span class="quiet">pull request {pull === undefined ? '' : `#${pull.number}`}</span>
  if (prState === undefined)
    return status === 'completed' ? (
      <span class="faint">{changedNothing(run) ? 'changed nothing' : 'no pull request'}</span>
    ) : null
  return (
    <>
      <Glyph name={prState} /> {pull === undefined ? '' : `#${pull.number} `}
      <span class="quiet">{glyphWord(prState).toLowerCase()}</span>
    </>
  )
}
