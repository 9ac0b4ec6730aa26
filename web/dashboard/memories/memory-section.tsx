/** The facts about a repository, newest first. */
import type { RepoMemory } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { Age } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { countOf } from '../../text/amounts.ts'
import { ticketAddress } from '../addresses.ts'
import type { RepoFacts } from './memory-list.ts'

export interface MemorySectionProps {
  readonly repo: RepoFacts
  readonly keep: (fact: RepoMemory) => Promise<void>
  readonly forget: (fact: RepoMemory) => Promise<void>
  readonly clear: () => Promise<void>
}

export function MemorySection({ repo: { remote, facts, count }, keep, forget, clear }: MemorySectionProps) {
  return (
    <Section
      title={remote}
      count={facts.length === count ? count : `${facts.length} of ${count}`}
      aside={
        <Button small kind="destructive" label={`Delete all… about ${remote}`} act={clear}>
          Delete all…
        </Button>
      }
    >
      <ul class="card memories">
        {facts.map((fact) => (
          <li key={fact.id} class="memory">
            <span class="memory-text">
              {fact.text}
              {fact.state === 'new' && (
                <span class="tag" title="Runs are told once its pull request is merged, or you keep it">
                  new
                </span>
              )}
            </span>
            <span class="memory-facts faint">
              <span title="How many runs recorded it">{countOf(fact.hits, 'run')}</span>
              {fact.ident !== undefined && <a href={ticketAddress(fact.ident)}>{fact.ident}</a>}
              <Age since={fact.updatedAt} />
            </span>
            <span class="memory-acts">
              {fact.state === 'new' && (
                <Button small kind="plain-quiet" label={`Keep “${fact.text}”`} act={() => keep(fact)}>
                  Keep
                </Button>
              )}
              <Button small kind="plain-quiet" label={`Forget “${fact.text}”`} act={() => forget(fact)}>
                Forget…
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
