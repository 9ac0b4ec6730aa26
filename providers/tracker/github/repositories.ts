/** Lists the configured repositories whose issues are tickets, each once even with several mappings. */
import type { TrackedTicket } from '../../../core/ports.ts'
import { normalizeName } from '../../../core/tickets/names.ts'
import { chooseRepo } from '../../../core/tickets/repo.ts'
import type { RepoMapping, ServiceConfig } from '../../../protocol/config.ts'

/** A repository with all its mappings. */
export interface TicketRepository {
  readonly remote: string
  /** Display name, without the owner where that is unambiguous. */
  readonly name: string
  readonly mappings: ServiceConfig['repos']
}

/** Keyed by normalized repository name. */
export function listTicketRepositories({ repos }: ServiceConfig): ReadonlyMap<string, TicketRepository> {
  const repositories = new Map<string, { remote: string; mappings: Record<string, RepoMapping> }>()
  for (const [key, mapping] of Object.entries(repos)) {
    const repository = repositories.get(normalizeName(mapping.remote)) ?? {
      remote: mapping.remote,
      mappings: {},
    }
    repository.mappings[key] = mapping
    repositories.set(normalizeName(mapping.remote), repository)
  }
  const names = [...repositories.keys()].map(baseName)
  return new Map(
    [...repositories].map(([key, home]) => {
      const isUnique = names.filter((name) => name === baseName(key)).length === 1
      return [key, { ...home, name: isUnique ? baseName(home.remote) : home.remote }]
    }),
  )
}

const baseName = (remote: string): string => remote.slice(remote.indexOf('/') + 1)

/** Chooses the mapping of an issue among those of its repository. */
export function pickRepoKey({ ticket }: TrackedTicket, { mappings }: TicketRepository): string | undefined {
  const [only, ...others] = Object.keys(mappings)
  if (others.length === 0) return only
  const choice = chooseRepo(ticket, mappings)
  return choice.ok ? choice.value.key : undefined
}
