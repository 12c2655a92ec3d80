import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// A development server answers the pages, and passes API calls to a Timeball that runs beside it.
const server = process.env.TIMEBALL_URL ?? 'http://127.0.0.1:1300'
const token = process.env.TIMEBALL_TOKEN

/** The server writes its base path and a nonce into index.html. The development server has neither. */
const placeholders: Plugin = {
  name: 'timeball-placeholders',
  apply: 'serve',
  transformIndexHtml: html => html.replaceAll('__TIMEBALL_BASE__', '/').replaceAll('__TIMEBALL_NONCE__', ''),
}

/** Pages are all called page.tsx: their chunks get the names of their folders. */
function nameOf(chunk: { name: string; facadeModuleId?: string | null }): string {
  return /\/pages\/([\w-]+)\/page\.tsx$/.exec(chunk.facadeModuleId ?? '')?.[1] ?? chunk.name
}

type Modules = { getModuleInfo: (id: string) => { importedIds: readonly string[] } | null }

const entry = fileURLToPath(new URL('./src/main.tsx', import.meta.url))
const firstLoad = new Set<string>()

/** Whether the entry needs a module at once. All of these are one file: a page that opens makes few requests. */
function isFirstLoad(id: string, modules: Modules): boolean {
  if (firstLoad.size === 0) {
    const open = [entry]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (firstLoad.has(next)) continue
      firstLoad.add(next)
      open.push(...(modules.getModuleInfo(next)?.importedIds ?? []))
    }
  }
  return firstLoad.has(id)
}

/**
 * The bundler keeps its helper functions (600 bytes) in a file of their own, which the first load would have to wait
 * for. They become part of the first file; pages that are loaded later still share the other one.
 */
const inlineRuntime: Plugin = {
  name: 'timeball-inline-runtime',
  apply: 'build',
  writeBundle: {
    order: 'post',
    sequential: true,
    handler({ dir = '' }, bundle) {
      const runtime = Object.keys(bundle).find(file => file.includes('/rolldown-runtime-'))
      const app = Object.keys(bundle).find(file => /\/app-[\w-]+\.js$/.test(file))
      if (runtime === undefined || app === undefined || !existsSync(join(dir, 'index.html'))) return
      const [helpers, exported] = splitExports(readFileSync(join(dir, runtime), 'utf8'))
      const imported = new RegExp(`import\\{([^}]*)\\}from"\\./${basename(runtime)}";`)
      const code = readFileSync(join(dir, app), 'utf8')
      const inlined = code.replace(imported, (_, names: string) => {
        return `const{${names.replaceAll(' as ', ':')}}=(()=>{${helpers};return{${exported}}})();`
      })
      if (inlined === code) this.error(`${app} does not import ${runtime} as expected`)
      writeFileSync(join(dir, app), inlined)
      const html = readFileSync(join(dir, 'index.html'), 'utf8')
      writeFileSync(join(dir, 'index.html'), html.replace(/ *<script[^>]*rolldown-runtime[^>]*><\/script>\n/, ''))
    },
  },
}

/** `…;export{c as n,o as t};` as the code before it, and `n:c,t:o`. */
function splitExports(code: string): [string, string] {
  const match = /^([\s\S]*?);?export\{([^}]*)\};?\s*$/.exec(code)
  if (match === null) throw new Error('the runtime of the bundler has another form')
  const names = (match[2] ?? '').split(',').map(item => item.trim().split(' as ').reverse().join(':'))
  return [match[1] ?? '', names.join(',')]
}

export default defineConfig({
  // Relative addresses: the UI works below any path prefix. The server writes <base href> into index.html.
  base: './',
  plugins: [react(), tailwindcss(), placeholders, inlineRuntime],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: process.env.TIMEBALL_WEB_OUT ?? '../src/timeball/web/static',
    emptyOutDir: true,
    manifest: 'manifest.json',
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      output: {
        chunkFileNames: chunk => `assets/${nameOf(chunk)}-[hash].js`,
        codeSplitting: { groups: [{ name: (id, modules) => (isFirstLoad(id, modules) ? 'app' : null) }] },
      },
    },
  },
  worker: { format: 'es' },
  server: {
    proxy: {
      '^/(v1|openapi.json|docs|livez|readyz)': {
        target: server,
        changeOrigin: true,
        headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts'] },
})
