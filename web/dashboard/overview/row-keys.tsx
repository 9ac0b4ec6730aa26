/** The keys of the overview's rows, loaded after the page has drawn them. */

import { useLayoutEffect } from 'preact/hooks'
import { useActs } from '../../elements/acts.ts'
import { useForgotten } from '../../elements/form.ts'
import { useLaterPart } from '../../elements/later-part.ts'
import { loadPageStyles } from '../page-styles.ts'
import { listActs } from '../runs/list-acts.ts'
import { chosenRun, marked } from '../runs/selection.ts'
import { runs } from '../state/records.ts'

export function RowKeys() {
  const id = chosenRun.value
  useActs(
    listActs({
      shown: shownRuns,
      chosen: id === undefined ? undefined : runs.value.get(id),
      choose: (run) => {
        chosenRun.value = run?.id
      },
    }),
  )
  useLayoutEffect(() => {
    if (id !== undefined) rowOf(id)?.scrollIntoView({ block: 'nearest' })
  }, [id])
  useForgotten(chosenRun)
  return id === undefined && marked.value.size === 0 ? null : <LaterRowActs />
}

function LaterRowActs() {
  const Acts = useLaterPart(async () => {
    const [{ RowActs }] = await Promise.all([import('./row-acts.tsx'), loadPageStyles()])
    return RowActs
  })
  return Acts === undefined ? null : <Acts />
}

/** The sections draw their rows by themselves, so the document knows the order. */
const shownRuns = () =>
  [...document.querySelectorAll<HTMLElement>('main [data-run]')].flatMap(
    (row) => runs.value.get(row.dataset.run ?? '') ?? [],
  )

const rowOf = (id: string) => document.querySelector(`main [data-run="${CSS.escape(id)}"]`)
