/** The keys and the bulk acts of the overview's rows, loaded after the page has drawn them. */
import { useEffect, useLayoutEffect } from 'preact/hooks'
import { useActs } from '../../elements/acts.ts'
import { BulkBar } from '../runs/bulk-bar.tsx'
import { listActs } from '../runs/list-acts.ts'
import { runs } from '../state/records.ts'
import { chosenRun } from './chosen-run.ts'

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
  useEffect(
    () => () => {
      chosenRun.value = undefined
    },
    [],
  )
  return <BulkBar />
}

/** The sections draw their rows by themselves, so the document knows the order. */
const shownRuns = () =>
  [...document.querySelectorAll<HTMLElement>('main [data-run]')].flatMap(
    (row) => runs.value.get(row.dataset.run ?? '') ?? [],
  )

const rowOf = (id: string) => document.querySelector(`main [data-run="${CSS.escape(id)}"]`)
