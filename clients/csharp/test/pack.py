"""Packs the assembly as `dotnet pack` does, from what CardGateway.Client.csproj
says: there is no .NET SDK on the machines that test.

    pack.py ASSEMBLY DOCUMENTATION DIR

The assembly was compiled against Mono's libraries, so the package is for
net461; that of `dotnet pack` is for netstandard2.0.
"""

import pathlib
import re
import sys
import xml.sax.saxutils as xml
import zipfile

here = pathlib.Path(__file__).parent.parent
project = (here / "CardGateway.Client.csproj").read_text(encoding="utf-8")


def says(name):
    return re.search(f"<{name}>(.*)</{name}>", project)[1]


ident, version = says("PackageId"), says("Version")
nuspec = f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>{ident}</id>
    <version>{version}</version>
    <title>{says("Title")}</title>
    <authors>{says("Authors")}</authors>
    <license type="expression">{says("PackageLicenseExpression")}</license>
    <readme>{says("PackageReadmeFile")}</readme>
    <projectUrl>{says("PackageProjectUrl")}</projectUrl>
    <description>{says("Description")}</description>
    <repository type="{says("RepositoryType")}" url="{says("RepositoryUrl")}" />
    <dependencies>
      <group targetFramework=".NETFramework4.6.1" />
    </dependencies>
  </metadata>
</package>
"""
relations = f"""<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{ident}.nuspec" Id="R1" />
</Relationships>
"""
kinds = "".join(
    f'  <Default Extension="{ending}" ContentType={xml.quoteattr(kind)} />\n'
    for ending, kind in (("rels", "application/vnd.openxmlformats-package.relationships+xml"), ("nuspec", "application/octet"),
                         ("dll", "application/octet"), ("xml", "application/octet"), ("md", "application/octet")))
types = f"""<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
{kinds}  <Override PartName="/LICENSE" ContentType="application/octet" />
</Types>
"""
assembly, documentation, target = map(pathlib.Path, sys.argv[1:])
with zipfile.ZipFile(target / f"{ident}.{version}.nupkg", "w", zipfile.ZIP_DEFLATED) as package:
    package.writestr("_rels/.rels", relations)
    package.writestr(f"{ident}.nuspec", nuspec)
    package.write(assembly, f"lib/net461/{ident}.dll")
    package.write(documentation, f"lib/net461/{ident}.xml")
    package.write(here / "README.md", "README.md")
    package.write(here / "LICENSE", "LICENSE")
    package.writestr("[Content_Types].xml", types)
