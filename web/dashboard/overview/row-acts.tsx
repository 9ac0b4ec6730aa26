/** The acts on the chosen row of the overview and on the marked ones, loaded when a person chooses or marks one. */
import { useActs } from '../../elements/acts.ts'
import { BulkBar } from '../runs/bulk-bar.tsx'
import { runActs } from '../runs/run-acts.ts'
import { chosenRun } from '../runs/selection.ts'
import { runs } from '../state/records.ts'

export function RowActs() {
  const run = runs.value.get(chosenRun.value ?? '')
  useActs(run === undefined ? [] : Object.values(runActs(run)))
  return <BulkBar />
}
