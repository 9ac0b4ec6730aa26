/** Arguments that several tools of `mcp-tools.ts` share. */
import Type from 'typebox'
import { MCP_PAGE_DEFAULT, MCP_PAGE_MAX } from './limits.ts'
import { nonEmptyText } from './schema-helpers.ts'

export const run = nonEmptyText(
  256,
  "A run: the identifier of its ticket (its newest run), the run's id, or the beginning of the id.",
)
export const ticket = nonEmptyText(256, "A ticket's identifier, such as ENG-12, or its id.")
export const pull = nonEmptyText(
  512,
  'A pull request: REPO#NUMBER with the key of the repository, or the ticket or run that opened it.',
)
export const limit = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: MCP_PAGE_MAX,
    description: `How many at most; ${MCP_PAGE_DEFAULT} unless given.`,
  }),
)
export const page = {
  offset: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'How many to leave out at the beginning.',
    }),
  ),
  limit,
}
