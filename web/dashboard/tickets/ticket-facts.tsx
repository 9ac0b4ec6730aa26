/** The facts of a ticket beside its text. */
import type { ComponentChildren } from 'preact'
import type { Ticket } from '../../../protocol/run.ts'
import { Icon } from '../../elements/icon.tsx'
import { Moment } from '../../elements/moments.tsx'
import { decodeOrKeep } from '../../text/decode.ts'
import { ticketAddress } from '../addresses.ts'
import { tickets } from '../state/records.ts'

import { PRIORITY_NAMES } from './priority-names.ts'

const PAGE = /^https?:/

export function TicketFacts({ ticket }: { readonly ticket: Ticket }) {
  const { state, priority, repo, labels, assignee, project, branchName, blockedBy } = ticket
  return (
    <aside class="card padded ticket-facts" aria-label={`Facts about ${ticket.identifier}`}>
      <dl class="facts">
        <Fact name="State">{state}</Fact>
        <Fact name="Priority">{PRIORITY_NAMES[priority]}</Fact>
        <Fact name="Repository">{repo ?? <span class="quiet">by its project and labels</span>}</Fact>
        <Fact name="Labels">
          {labels.length === 0 ? (
            'none'
          ) : (
            <span class="tags">
              {labels.map((label) => (
                <a class="tag" key={label} href={`/tickets?label=${encodeURIComponent(label)}`}>
                  {label}
                </a>
              ))}
            </span>
          )}
        </Fact>
        <Fact name="Project">{project ?? 'none'}</Fact>
        <Fact name="Assignee">{assignee ?? 'nobody'}</Fact>
        {branchName !== undefined && (
          <Fact name="Branch">
            <code>{branchName}</code>
          </Fact>
        )}
        {blockedBy.length > 0 && (
          <Fact name="Blocked by">
            {blockedBy.map((id) => (
              <Blocker key={id} id={id} />
            ))}
          </Fact>
        )}
        <Fact name="Created">
          <Moment at={ticket.createdAt} />
        </Fact>
        <Fact name="Changed">
          <Moment at={ticket.updatedAt} />
        </Fact>
      </dl>
      <Origin url={ticket.url} />
    </aside>
  )
}

const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

function Blocker({ id }: { readonly id: string }) {
  const ticket = tickets.value?.find((each) => each.id === id)
  return (
    <div>
      <a href={ticketAddress(id)} title={ticket?.title}>
        {ticket?.identifier ?? id}
      </a>{' '}
      {ticket !== undefined && <span class="quiet">{ticket.state}</span>}
    </div>
  )
}

/** A page opens no files of the machine, so the path of a file is text. */
function Origin({ url }: Pick<Ticket, 'url'>) {
  if (url === '') return null
  if (PAGE.test(url))
    return (
      <a href={url} target="_blank" rel="noopener noreferrer">
        Open in the tracker <Icon name="external" />
      </a>
    )
  return <code class="faint origin">{decodeOrKeep(url.replace(/^file:\/\//, ''))}</code>
}
