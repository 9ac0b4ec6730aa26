/** A run as a row of a list: its mark, its state, its ticket, what came of it, its age and its cost. */
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Age, Span } from '../../elements/moments.tsx'
import { formatMoney } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { RunOutcome } from './run-outcome.tsx'
import { marked, toggleMark } from './selection.ts'

export function RunLine({ run, isChosen }: { readonly run: Run; readonly isChosen: boolean }) {
  const { id, ticket, status, sandbox } = run
  // Every status of a run is a glyph of the same name.
  const glyph = status as StateGlyph
  return (
    <div class={`run-line${isChosen ? ' chosen' : ''}`} role="presentation">
      <span role="cell" class="run-mark">
        <input
          type="checkbox"
          aria-label={`Mark ${ticket.identifier}`}
          checked={marked.value.has(id)}
          onChange={() => toggleMark(id)}
        />
      </span>
      <span role="cell" class="run-word">
        <Glyph name={glyph} /> <span class="word">{glyphWord(glyph)}</span>
      </span>
      <span role="cell" class="mono faint ellipsis">
        {ticket.identifier}
      </span>
      <span role="cell" class="run-title ellipsis">
        <a class="line-link" href={runAddress(id)} title={ticket.title}>
          {ticket.title}
        </a>
      </span>
      <span role="cell" class="run-outcome ellipsis">
        <RunOutcome run={run} />
      </span>
      <span role="cell" class="run-repo quiet ellipsis">
        {ticket.repo}
      </span>
      <span role="cell" class="run-worker mono ellipsis">
        {sandbox.workerName}
      </span>
      <span role="cell" class="run-length number quiet">
        <Span from={run.startedAt} to={run.finishedAt ?? (hasEnded(run) ? run.startedAt : undefined)} />
      </span>
      <span role="cell" class="number">
        {formatMoney(run.costTotals)}
      </span>
      <span role="cell" class="run-age number faint">
        <Age since={run.createdAt} />
      </span>
    </div>
  )
}
