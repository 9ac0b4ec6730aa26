/** The glyph of a run's row, or the box that marks it while runs are being marked. */
import type { Run } from '../../../protocol/run.ts'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { marked, toggleMark } from '../runs/selection.ts'

export function RowGlyph({ run, name }: { readonly run: Run; readonly name: StateGlyph }) {
  if (marked.value.size === 0) return <Glyph name={name} alone />
  return (
    <input
      type="checkbox"
      aria-label={`Mark ${run.ticket.identifier}`}
      checked={marked.value.has(run.id)}
      onChange={() => toggleMark(run.id)}
    />
  )
}
