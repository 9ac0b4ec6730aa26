/** The facts that earlier runs have recorded about the run's repository, those of this ticket first. */
import type { Run } from '../../../protocol/run.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { PanelPart } from './panel-part.tsx'

const SHOWN = 5

export function RunMemories({ run }: { readonly run: Run }) {
  const remote = run.pull?.remote ?? config.value?.repos[run.ticket.repo ?? '']?.remote
  const { data } = useRequest(`memories ${run.id} ${run.status}`, (signal) =>
    host.listMemories({}, { signal }),
  )
  const all = data?.repos[remote ?? ''] ?? []
  if (remote === undefined || all.length === 0) return null
  const isOwn = (ident: string | undefined) => ident === run.ticket.identifier
  const shown = [...all].sort((a, b) => Number(isOwn(b.ident)) - Number(isOwn(a.ident))).slice(0, SHOWN)
  return (
    <PanelPart title="Memories" count={all.length}>
      <ul class="run-memories">
        {shown.map(({ id, text, ident }) => (
          <li key={id}>
            {text} {isOwn(ident) && <span class="tag">this ticket</span>}
          </li>
        ))}
      </ul>
      <a href={`/memories?repo=${encodeURIComponent(remote)}`}>All memories of {remote}</a>
    </PanelPart>
  )
}
