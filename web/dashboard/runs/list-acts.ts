/** Going through a list of runs by keys: the chosen run and the marks. */
import type { Run } from '../../../protocol/run.ts'
import type { Act } from '../../elements/acts.ts'
import { navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import { mark, marked, toggleMark, unmarkAll } from './selection.ts'

export interface RunList {
  /** The runs in the order in which they are shown now. */
  readonly shown: () => readonly Run[]
  readonly chosen: Run | undefined
  readonly choose: (run: Run | undefined) => void
}

const GROUP = 'Runs'

export function listActs({ shown, chosen, choose }: RunList): Act[] {
  const step = (by: number, marks: boolean): void => {
    const list = shown()
    const at = list.findIndex(({ id }) => id === chosen?.id)
    const next = list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))]
    if (marks) mark([chosen, next].flatMap((run) => run?.id ?? []))
    choose(next)
  }
  const moves: Act[] = [
    { id: 'next run', title: 'Next run', group: GROUP, keys: 'j', act: () => step(1, false) },
    { id: 'previous run', title: 'Previous run', group: GROUP, keys: 'k', act: () => step(-1, false) },
    { id: 'mark next', title: 'Mark, and go on', group: GROUP, keys: 'Shift j', act: () => step(1, true) },
    {
      id: 'mark previous',
      title: 'Mark, and go back',
      group: GROUP,
      keys: 'Shift k',
      act: () => step(-1, true),
    },
  ]
  const unmark: Act = {
    id: 'no run',
    title: 'Unmark all',
    group: GROUP,
    keys: 'Escape',
    act: () => {
      unmarkAll()
      choose(undefined)
    },
  }
  if (chosen === undefined) return marked.value.size === 0 ? moves : [...moves, unmark]
  const { id, ticket } = chosen
  return [
    ...moves,
    {
      id: 'mark run',
      title: `Mark ${ticket.identifier}`,
      group: GROUP,
      keys: 'x',
      act: () => toggleMark(id),
    },
    {
      id: 'open run',
      title: `Open ${ticket.identifier}`,
      group: GROUP,
      keys: 'Enter',
      act: () => navigate(runAddress(id)),
    },
    unmark,
  ]
}
