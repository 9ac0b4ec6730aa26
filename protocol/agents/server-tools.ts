/** The tools that run at a model's vendor, and what else the vendor would fetch or keep; a setting names those allowed. */
export const SERVER_TOOLS = ['web_search', 'web_fetch', 'mcp', 'code_execution', 'files', 'urls'] as const
export type ServerTool = (typeof SERVER_TOOLS)[number]
